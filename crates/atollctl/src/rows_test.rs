//! Goal:   the output of `atollctl-rows` is parsed correctly, and incomplete output is refused.
//! Method: parses lines that were written by hand.

use super::*;

fn names() -> TableNames {
    let named = objstore::protocol::NamedTable {
        database: "shöp".to_owned(),
        name: "orders".to_owned(),
        family: 7,
        ..objstore::protocol::NamedTable::default()
    };
    TableNames { tables: vec![named], gone: Vec::new() }
}

#[test]
fn lines_become_tables_under_their_names_in_sql() {
    let text = "7\t0\tsh@1ep\torders\t\t1\t2\t3\t9\tsh@1ep\torders\t+ a@0040 int(11)\n\
                9\t0\ta@002db\tt@0023P\trenamed\t0\t0\t0\t0\ta@002db\told\t\n.\n";
    let rows = parse(text, |fields| changed_rows(fields, &names())).unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.change.as_str())).collect();
    assert_eq!(told, [("shöp.orders", "changed"), ("a-b.t#P", "renamed")]);
    assert_eq!(rows[1].former_name.as_deref(), Some("a-b.old"));
    assert_eq!((rows[0].altered.as_str(), rows[1].altered.as_str()), ("+ a@ int(11)", ""));
    assert_eq!((rows[0].inserted, rows[0].changed, rows[0].deleted, rows[0].keys_read), (1, 2, 3, 9));
}

/// The bucket's note has the present name `shöp.orders` of family 7. At the time of the state that is read, the
/// table was `shop.a@b`, whose file is named `a@0040b`.
#[test]
fn a_decoded_name_may_contain_the_sign_that_begins_a_code() {
    let text = "7\t0\tshop\ta@0040b\t\t1\t2\t3\t9\tshop\ta@0040b\t\n.\n";
    let rows = parse(text, |fields| changed_rows(fields, &names())).unwrap();
    assert_eq!(rows[0].name, "shop.a@b");
}

#[test]
fn output_that_ends_early_is_no_answer() {
    let parse = |text| parse(text, |fields| changed_rows(fields, &names()));
    let line = "7\t0\tshop\torders\t\t1\t2\t3\t9\tshop\torders\t\n";
    assert_eq!(parse(line), None);
    assert_eq!(parse(""), None);
    assert_eq!(parse("7\t0\tshop\n.\n"), None);
    assert_eq!(parse(".\n"), Some(Vec::new()));
}

#[test]
fn a_line_of_the_schema_names_the_whole_table() {
    let text = "7\t0\tshop\tt#P#p0\tkey\ti@0009d\tUNIQUE (a@0040)\n.\n";
    let lines = parse(text, |fields| schema_line(fields, &TableNames::default())).unwrap();
    let (kind, name) = ("key".to_owned(), "i\td".to_owned());
    let definition = "UNIQUE (a@)".to_owned();
    assert_eq!(lines, [SchemaLine { table: "shop.t".to_owned(), kind, name, definition }]);
    assert_eq!(parse("7\t0\tshop\tt\tkey\ti\n.\n", |fields| schema_line(fields, &names())), None);
}

#[test]
fn a_problem_of_a_table_is_told() {
    let text =
        "7\t0\tshop\torders\t3\t5\t\n8\t0\tshop\tbad\t3\t5\tthe index `i` has 2 entries for 3 rows\n.\n";
    let tables = parse(text, |fields| read_table(fields, &names())).unwrap();
    assert_eq!((tables[0].rows, tables[0].entries, tables[0].problem.as_str()), (3, 5, ""));
    assert_eq!((tables[1].name.as_str(), tables[1].problem.contains("2 entries")), ("shop.bad", true));
}
