//! The statements that start the replication in a replica which `atollctl seed` has made, with remarks about what
//! has to be done before.

use crate::output::shown;
use clap::Args;
use objstore::protocol::CloneStatus;

/// How the replica reaches the primary.
#[derive(Debug, Args)]
pub(crate) struct Primary {
    /// The host at which the replica reaches the primary.
    #[arg(long = "primary-host", visible_alias = "host", value_name = "HOST", default_value = "PRIMARY")]
    host: String,
    /// The primary's port.
    #[arg(long = "primary-port", visible_alias = "port", value_name = "PORT", default_value_t = 3306)]
    port: u16,
    /// The primary's account with REPLICATION SLAVE. The statements leave its password empty.
    #[arg(long = "primary-user", visible_alias = "user", value_name = "USER", default_value = "replication")]
    user: String,
}

/// Names the views of a server.
const VIEWS: &str = "SELECT table_schema, table_name FROM information_schema.views \
                     WHERE table_schema NOT IN ('mysql', 'sys')";
/// Names the tables of a server that are not in the bucket.
const OTHER_ENGINES: &str = "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE engine <> 'ATOLL' \
                             AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// Make the table of the replica's position anew. After `seed --again` the one that was in ATOLL is gone. A clone of a
/// database that was a replica has that one's, beside the table in the new data directory; DROP removes only one of two.
const POSITION_TABLE: &str = "DROP TABLE IF EXISTS mysql.gtid_slave_pos;\n\
     CREATE OR REPLACE TABLE mysql.gtid_slave_pos (domain_id INT UNSIGNED NOT NULL, sub_id BIGINT UNSIGNED NOT NULL, \
     server_id INT UNSIGNED NOT NULL, seq_no BIGINT UNSIGNED NOT NULL, PRIMARY KEY (domain_id, sub_id)) ENGINE=ATOLL \
     COMMENT='Replication slave GTID position';\n";

/// Returns the statements, with the remarks as comments of SQL. They start the replication at the state of the clone
/// `made` in `url`. `again`: the server of the clone has a data directory of an earlier one.
pub(crate) fn script(made: &CloneStatus, primary: &Primary, url: &str, again: bool) -> String {
    let remarks: String = remarks(primary, url, again).iter().map(|line| format!("-- {line}\n")).collect();
    format!(
        "{remarks}\
         STOP SLAVE;\n\
         SET SESSION sql_log_bin = 0;\n\
         {POSITION_TABLE}\
         SET GLOBAL gtid_slave_pos = {};\n\
         CHANGE MASTER TO MASTER_HOST = {}, MASTER_PORT = {}, MASTER_USER = {}, MASTER_PASSWORD = '', \
         MASTER_USE_GTID = slave_pos;\n\
         START SLAVE;\n",
        quoted(&made.gtid_position),
        quoted(&primary.host),
        primary.port,
        quoted(&primary.user),
    )
}

fn remarks(primary: &Primary, url: &str, again: bool) -> Vec<String> {
    let (host, port, user) = (shown(&primary.host), primary.port, shown(&primary.user));
    let aside = if again { "Move #atoll of the replica's data directory away, then start" } else { "Start" };
    let mut lines = vec![format!(
        "1. {aside} the replica with atoll_url={}, its own server_id, and skip_slave_start.",
        shown(url)
    )];
    if !again {
        lines.extend([
            "2. ACCOUNTS, VIEWS, ROUTINES AND EVENTS ARE NOT IN THE BUCKET. Load what these commands write:".to_owned(),
            format!("     mariadb-dump -h {host} -P {port} --system=users,servers,udfs,timezones --insert-ignore"),
            format!(
                "     mariadb-dump -h {host} -P {port} --all-databases --no-data --no-create-info --skip-triggers \
                 --routines --events"
            ),
            format!("     mariadb-dump -h {host} -P {port} DATABASE VIEW...   for the views that this names:"),
            format!("     mariadb -h {host} -P {port} -e \"{VIEWS}\""),
            "3. NO TABLE OF ANOTHER ENGINE IS IN THE REPLICA, which stops at the first change of one. The bucket does not \
             know them; this names them:"
                .to_owned(),
            format!("     mariadb -h {host} -P {port} -e \"{OTHER_ENGINES}\""),
        ]);
    }
    let number = if again { 2 } else { 4 };
    lines.push(format!(
        "{number}. Put the password of '{user}' into MASTER_PASSWORD, and run these statements in the replica:"
    ));
    lines
}

/// `text` as a literal of SQL, on one line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore::protocol::Parent;

    fn made(gtid_position: &str) -> CloneStatus {
        CloneStatus {
            db_uuid: "child".to_owned(),
            parent: Parent { db_uuid: "parent".to_owned(), epoch: 1, slot: 2, origins: Vec::new() },
            commit_us: None,
            gtid_position: gtid_position.to_owned(),
            files: 0,
            shared_bytes: 0,
            copied_bytes: 0,
        }
    }

    fn primary(host: &str) -> Primary {
        Primary { host: host.to_owned(), port: 3307, user: "o'hara\\".to_owned() }
    }

    fn statements(script: &str) -> Vec<&str> {
        script.lines().filter(|line| !line.starts_with("--")).collect()
    }

    #[test]
    fn the_statements_begin_at_the_clone_and_have_no_password() {
        let script = script(&made("0-1-7,1-2-9"), &primary("db1"), "s3://bucket/replica", false);
        let expected = [
            "STOP SLAVE;",
            "SET SESSION sql_log_bin = 0;",
            POSITION_TABLE.lines().next().unwrap(),
            POSITION_TABLE.lines().nth(1).unwrap(),
            "SET GLOBAL gtid_slave_pos = '0-1-7,1-2-9';",
            "CHANGE MASTER TO MASTER_HOST = 'db1', MASTER_PORT = 3307, MASTER_USER = 'o''hara\\\\', MASTER_PASSWORD = '', \
             MASTER_USE_GTID = slave_pos;",
            "START SLAVE;",
        ];
        assert_eq!(statements(&script), expected);
    }

    #[test]
    fn the_remarks_say_what_is_missing_and_only_the_first_time() {
        let text = |again| script(&made("0-1-7"), &primary("db1"), "s3://bucket/replica", again);
        let first = text(false);
        let missing = [
            "NO TABLE OF ANOTHER ENGINE",
            "--system=users,servers,udfs,timezones --insert-ignore",
            "--routines --events",
        ];
        assert!(missing.iter().all(|what| first.contains(what)) && first.contains("password of"), "{first}");
        let again = text(true);
        assert!(again.contains("Move #atoll") && !again.contains("ANOTHER ENGINE"), "{again}");
    }

    #[test]
    fn no_argument_ends_a_remark_and_becomes_a_statement() {
        let url = "file:///a\nDROP DATABASE d;";
        let script = script(&made(""), &primary("db1\nSHUTDOWN;"), url, false);
        let begins: Vec<_> = statements(&script).iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(begins, ["STOP", "SET", "DROP", "CREATE", "SET", "CHANGE", "START"], "{script}");
    }
}
