//! Writes results as text for people or as JSON for programs. No other file writes to standard output.

use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

/// Writes results to standard output.
pub(crate) struct Printer {
    json: bool,
}

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one line of text. A closed pipe (`| head`) is no error.
    pub(crate) fn line(&self, text: &str) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    /// Writes one line as [`Self::line`] does, and flushes it. Returns false when the output is a closed
    /// pipe.
    pub(crate) fn try_line(&self, text: &str) -> bool {
        let mut out = std::io::stdout();
        writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
    }

    pub(crate) fn json(&self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string_pretty(value) {
            self.line(&text);
        }
    }

    pub(crate) fn table(&self, table: &Table) {
        for line in table.lines() {
            self.line(&line);
        }
    }

    pub(crate) fn table_or_json(&self, table: &Table, value: &impl Serialize) {
        if self.json { self.json(value) } else { self.table(table) }
    }
}

/// A table of text. Each column is as wide as its widest cell. A heading that starts with `>` aligns its
/// column to the right.
pub(crate) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let first = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Self { right, rows: vec![first] }
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.right.len())
            .map(|column| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let cell = |text: &String, width: usize, right: bool| {
            if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.right);
            let cells: Vec<String> = cells.map(|((text, width), right)| cell(text, *width, *right)).collect();
            cells.join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// `name` in the form in which it is printed. Control characters, which could break the line or disturb the
/// terminal, are escaped.
pub(crate) fn shown(name: &str) -> String {
    let character = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(character).collect()
}

/// A number of bytes as text with a binary unit, such as `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Milliseconds since 1970, by this machine's clock.
pub(crate) fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_millis() as u64)
}

/// How long ago a time in milliseconds since 1970 was, by this machine's clock.
pub(crate) fn age(time_ms: u64) -> String {
    format!("{} ago", span(now_ms().saturating_sub(time_ms) / 1000))
}

/// A span of time with a unit that suits it.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_sizes_readable() {
        let mut table = Table::new(&[">n", "name"]);
        table.row(&["7".to_owned(), "a".to_owned()]);
        table.row(&["123".to_owned(), "bcd".to_owned()]);
        assert_eq!(table.lines(), ["  n  name", "  7  a", "123  bcd"]);
        table.row(&["5".to_owned(), "é".to_owned()]);
        assert_eq!(table.lines().last().map(String::as_str), Some("  5  é"));
        let spans = [119, 7199, 7200, 172_800].map(span);
        assert_eq!(spans, ["119 s", "119 min", "2 h", "2 days"]);
        assert_eq!(shown("a\n\u{1b}é"), "a\\n\\u{1b}é");
        assert_eq!(
            (size(17), size(1536), size(3 << 30)),
            ("17 B".into(), "1.5 KiB".into(), "3.0 GiB".into())
        );
    }
}
