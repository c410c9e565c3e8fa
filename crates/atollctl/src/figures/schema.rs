//! `atollctl ls --schema`: the columns and keys of all tables, as the catalog has them.

use crate::output::{Printer, Table, shown};
use crate::rows::{self, Place, SchemaLine};
use objstore::StoreError;
use objstore::protocol::Inspector;
use serde::Serialize;

/// The columns and keys of one table.
#[derive(Debug, PartialEq, Serialize)]
struct TableSchema {
    name: String,
    /// The version of the server that described the table. Empty: the catalog does not know the columns, because
    /// an earlier version of Atoll has made the table, and no server has opened it since.
    server_version: String,
    columns: Vec<Described>,
    keys: Vec<Described>,
}

/// A column or a key.
#[derive(Debug, PartialEq, Serialize)]
struct Described {
    name: String,
    definition: String,
}

/// Shows the columns and keys of all tables of `state`. Always returns true.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    place: &Place,
    state: &str,
) -> Result<bool, StoreError> {
    let names = inspector.table_names().await?;
    let tables = tables(rows::schema(place, &names, state).await?);
    printer.table_or_json(&table(&tables), &tables);
    Ok(true)
}

/// Gathers the lines of each table. Columns and keys before the first table are ignored; there are none.
fn tables(lines: Vec<SchemaLine>) -> Vec<TableSchema> {
    let mut tables: Vec<TableSchema> = Vec::new();
    for SchemaLine { table, kind, name, definition } in lines {
        match (kind.as_str(), tables.last_mut()) {
            ("column", Some(last)) => last.columns.push(Described { name, definition }),
            ("key", Some(last)) => last.keys.push(Described { name, definition }),
            _ => tables.push(TableSchema {
                name: table,
                server_version: name,
                columns: Vec::new(),
                keys: Vec::new(),
            }),
        }
    }
    tables
}

fn table(tables: &[TableSchema]) -> Table {
    let mut text = Table::new(&["table", "kind", "name", "definition"]);
    for TableSchema { name, server_version, columns, keys } in tables {
        let described_by = match server_version.is_empty() {
            true => "not known: no server has opened it since an upgrade of Atoll".to_owned(),
            false => format!("by MariaDB {server_version}"),
        };
        text.row(&[shown(name), "table".to_owned(), String::new(), described_by]);
        for (kind, all) in [("column", columns), ("key", keys)] {
            for Described { name: of, definition } in all {
                text.row(&[shown(name), kind.to_owned(), shown(of), shown(definition)]);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(table: &str, kind: &str, name: &str, definition: &str) -> SchemaLine {
        let [table, kind, name, definition] = [table, kind, name, definition].map(str::to_owned);
        SchemaLine { table, kind, name, definition }
    }

    #[test]
    fn columns_and_keys_belong_to_the_table_before_them() {
        let tables = tables(vec![
            line("shop.old", "table", "", ""),
            line("shop.t", "table", "10.11.18", ""),
            line("shop.t", "column", "id", "int(11) NOT NULL"),
            line("shop.t", "key", "PRIMARY", "UNIQUE (id)"),
        ]);
        assert_eq!(tables.len(), 2);
        assert_eq!((tables[0].columns.len(), tables[0].keys.len()), (0, 0));
        assert_eq!((tables[1].columns[0].name.as_str(), tables[1].keys[0].name.as_str()), ("id", "PRIMARY"));
        let lines = table(&tables).lines();
        assert!(lines[1].contains("not known"), "{lines:?}");
        assert!(lines[2].ends_with("by MariaDB 10.11.18"), "{lines:?}");
        assert!(lines[3].starts_with("shop.t") && lines[3].ends_with("int(11) NOT NULL"), "{lines:?}");
    }
}
