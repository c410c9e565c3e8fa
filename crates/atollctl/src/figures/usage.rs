//! Sums up the objects of a bucket by table, index, age and use, for the commands `du`, `cost` and `ui`.

use objstore::protocol::{FileOwner, NamedTable, ObjectKind, Space, SpaceObject, SpaceUse, TableNames};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The upper bounds of the classes of age, in hours. Older objects are in a further class.
pub(crate) const AGE_HOURS: [u64; 5] = [1, 24, 7 * 24, 30 * 24, 365 * 24];
const HOUR_MS: u64 = 3_600_000;

/// The number of objects, and their bytes by use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    pub(crate) objects: u64,
    /// The bytes of objects that only the newest root needs.
    pub(crate) live_bytes: u64,
    /// The bytes of objects that the newest root needs, and also snapshots, clones or the history.
    pub(crate) shared_bytes: u64,
    /// The bytes of objects that only snapshots, clones or the history need.
    pub(crate) history_bytes: u64,
    /// The bytes of objects that nothing needs: they wait for the collector, or were uploaded for a root that
    /// is not published yet.
    pub(crate) unneeded_bytes: u64,
    /// The bytes of objects whose names are not Atoll's.
    pub(crate) foreign_bytes: u64,
    /// The bytes of all these objects by the age of the object, for the classes of [`AGE_HOURS`].
    pub(crate) bytes_by_age: [u64; AGE_HOURS.len() + 1],
}

impl Usage {
    fn add(&mut self, object: &SpaceObject, now_ms: u64) {
        self.objects += 1;
        *match object.usage {
            SpaceUse::Live => &mut self.live_bytes,
            SpaceUse::Shared => &mut self.shared_bytes,
            SpaceUse::History => &mut self.history_bytes,
            SpaceUse::Unneeded => &mut self.unneeded_bytes,
            SpaceUse::Foreign => &mut self.foreign_bytes,
        } += object.bytes;
        let hours = now_ms.saturating_sub(object.written_ms) / HOUR_MS;
        let class = AGE_HOURS.iter().position(|end| hours < *end).unwrap_or(AGE_HOURS.len());
        if let Some(bytes) = self.bytes_by_age.get_mut(class) {
            *bytes += object.bytes;
        }
    }

    /// The bytes of all objects, whatever their use.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_by_age.iter().sum()
    }
}

/// How much space one table, index or kind of object takes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// `database.table`. For bytes that belong to no table, or to a table of unknown name: a description in
    /// parentheses.
    pub(crate) name: String,
    /// The name of an index; empty for all indexes together.
    pub(crate) index: String,
    /// `table`, `log`, `manifest`, `root`, `other` or `foreign`.
    pub(crate) kind: &'static str,
    /// The table and index whose entries the table files have. None where that is not known, and for objects
    /// that are no table files.
    pub(crate) owner: Option<FileOwner>,
    #[serde(flatten)]
    pub(crate) usage: Usage,
}

/// The sums over all objects below the prefix of the database.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The tables, the largest first; then the objects that belong to no table.
    pub(crate) rows: Vec<Row>,
    pub(crate) total: Usage,
    /// Table files that lie in the prefix of another database, because this one is a clone.
    pub(crate) elsewhere_files: u64,
    pub(crate) elsewhere_bytes: u64,
    /// What keeps the collector from deleting anything at present; empty when the collector may delete.
    pub(crate) held_by: String,
    /// Why the tables of some files could not be named; empty when all could.
    pub(crate) problem: String,
}

/// Sums `space` up by table, and by index if `by_index`. `now_ms`: the time in milliseconds since 1970.
pub(crate) fn summarize(space: &Space, by_index: bool, now_ms: u64) -> Summary {
    let names = Names::of(space);
    let mut rows: BTreeMap<(bool, String, String), Row> = BTreeMap::new();
    let mut total = Usage::default();
    for object in &space.objects {
        let (kind, name, index, owner) = match (object.usage, object.kind) {
            (SpaceUse::Foreign, _) => ("foreign", "(objects of others)".to_owned(), String::new(), None),
            (_, ObjectKind::Table) => {
                let owner = object.owner.map(|owner| match by_index {
                    true => owner,
                    false => FileOwner { index: None, ..owner },
                });
                let index = if by_index { names.index(owner) } else { String::new() };
                ("table", names.table(owner), index, owner)
            }
            (_, ObjectKind::Log) => ("log", "(log)".to_owned(), String::new(), None),
            (_, ObjectKind::Manifest) => ("manifest", "(lists of files)".to_owned(), String::new(), None),
            (_, ObjectKind::Root) => ("root", "(roots and file maps)".to_owned(), String::new(), None),
            (_, ObjectKind::Other) => ("other", "(other records)".to_owned(), String::new(), None),
        };
        let key = (kind != "table", name.clone(), index.clone());
        let row = rows.entry(key).or_insert(Row { name, index, kind, owner, usage: Usage::default() });
        row.usage.add(object, now_ms);
        total.add(object, now_ms);
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by_key(|row| (row.kind != "table", u64::MAX - row.usage.bytes()));
    Summary {
        rows,
        total,
        elsewhere_files: space.elsewhere.0,
        elsewhere_bytes: space.elsewhere.1,
        held_by: space.held_by.clone(),
        problem: space.problem.clone(),
    }
}

fn full_name(table: &NamedTable) -> String {
    format!("{}.{}", table.database, table.name)
}

/// The names of tables and indexes, by column family, key prefix and index number.
pub(crate) struct Names<'a> {
    families: &'a BTreeMap<u32, String>,
    tables: BTreeMap<(u32, u32), String>,
    indexes: BTreeMap<(u32, u32, u16), String>,
}

impl<'a> Names<'a> {
    fn of(space: &'a Space) -> Self {
        Self::new(&space.names, &space.families)
    }

    /// `families`: RocksDB's names of the column families.
    pub(crate) fn new(names: &TableNames, families: &'a BTreeMap<u32, String>) -> Self {
        let (mut tables, mut indexes) = (BTreeMap::new(), BTreeMap::new());
        let present: BTreeSet<_> = names.tables.iter().map(full_name).collect();
        for table in &names.gone {
            let name = full_name(table);
            let why = if present.contains(&name) { "before it was rewritten" } else { "dropped" };
            tables.insert(table.place(), format!("{name} ({why})"));
        }
        for table in &names.tables {
            tables.insert(table.place(), full_name(table));
        }
        for table in names.gone.iter().chain(&names.tables) {
            for index in &table.indexes {
                let name = if index.name.is_empty() { "(hidden key)" } else { &index.name };
                indexes.insert((table.family, table.prefix, index.ordinal), name.to_owned());
            }
        }
        Self { families, tables, indexes }
    }

    /// The name of the table to which a file of `owner` belongs: `database.table`, or in parentheses what is
    /// known about the file if that table has no known name.
    pub(crate) fn table(&self, owner: Option<FileOwner>) -> String {
        let Some(owner) = owner else { return "(table files that no root names)".to_owned() };
        if let Some(name) = owner.prefix.and_then(|prefix| self.tables.get(&(owner.family, prefix))) {
            return name.clone();
        }
        let family = self.families.get(&owner.family).map(String::as_str);
        match (family, owner.prefix) {
            (Some("catalog"), _) => "(catalog)".to_owned(),
            (Some("shared"), None) => "(several small tables)".to_owned(),
            (Some("shared"), Some(prefix)) => format!("(small table {prefix})"),
            (_, _) => format!("(family {})", owner.family),
        }
    }

    fn index(&self, owner: Option<FileOwner>) -> String {
        let Some(FileOwner { family, prefix: Some(prefix), index }) = owner else { return String::new() };
        if self.families.get(&family).is_some_and(|name| name == "catalog") {
            return String::new();
        }
        match index {
            None => "(several)".to_owned(),
            Some(index) => {
                let name = self.indexes.get(&(family, prefix, index));
                name.cloned().unwrap_or_else(|| format!("(index {index})"))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use objstore::protocol::NamedIndex;

    /// A table file of `family`, with 100 bytes.
    pub(crate) fn file(owner: Option<FileOwner>, usage: SpaceUse, written_ms: u64) -> SpaceObject {
        let key = "sst/00/1-1.sst".to_owned();
        SpaceObject { key, bytes: 100, written_ms, kind: ObjectKind::Table, usage, owner }
    }

    fn owner(family: u32, prefix: Option<u32>, index: Option<u16>) -> Option<FileOwner> {
        Some(FileOwner { family, prefix, index })
    }

    fn space() -> Space {
        let families = [(1, "catalog"), (2, "shared"), (7, "t00000007.zstd.3")]
            .map(|(number, name)| (number, name.to_owned()))
            .into();
        let indexes = vec![NamedIndex { ordinal: 1, name: "PRIMARY".to_owned() }];
        let (database, name) = ("sh<op".to_owned(), "orders".to_owned());
        let tables = vec![NamedTable { database, name, family: 7, prefix: 0, indexes }];
        let objects = vec![
            file(owner(7, Some(0), Some(1)), SpaceUse::Live, 0),
            file(owner(7, Some(0), Some(1)), SpaceUse::History, 0),
            file(owner(7, Some(0), None), SpaceUse::Shared, 0),
            file(owner(2, Some(9), Some(3)), SpaceUse::Live, 0),
            file(owner(2, None, None), SpaceUse::Live, 0),
            file(owner(1, None, None), SpaceUse::Live, 0),
            file(None, SpaceUse::Unneeded, 0),
        ];
        Space { families, names: TableNames { tables, gone: Vec::new() }, objects, ..Space::default() }
    }

    #[test]
    fn files_are_summed_by_table_and_index_and_names_that_nobody_knows_are_said() {
        let rows = |by_index| {
            let rows = summarize(&space(), by_index, 0).rows;
            let mut rows: Vec<String> =
                rows.iter().map(|row| format!("{}|{}|{}", row.name, row.index, row.usage.bytes())).collect();
            rows.sort();
            rows
        };
        let expected = [
            "(catalog)||100",
            "(several small tables)||100",
            "(small table 9)||100",
            "(table files that no root names)||100",
            "sh<op.orders||300",
        ];
        assert_eq!(rows(false), expected);
        let by_index = rows(true);
        assert!(by_index.contains(&"sh<op.orders|PRIMARY|200".to_owned()), "{by_index:?}");
        assert!(by_index.contains(&"sh<op.orders|(several)|100".to_owned()), "{by_index:?}");
        assert!(by_index.contains(&"(small table 9)|(index 3)|100".to_owned()), "{by_index:?}");
    }

    #[test]
    fn the_total_has_each_byte_once_by_use_and_by_age() {
        let mut space = space();
        space.objects.push(file(None, SpaceUse::Foreign, 400 * 24 * HOUR_MS));
        let total = summarize(&space, false, 400 * 24 * HOUR_MS).total;
        assert_eq!((total.live_bytes, total.shared_bytes, total.history_bytes), (400, 100, 100));
        assert_eq!((total.unneeded_bytes, total.foreign_bytes, total.bytes()), (100, 100, 800));
        assert_eq!(total.bytes_by_age, [100, 0, 0, 0, 0, 700]);
    }
}
