//! A progress bar on the terminal, for commands that move many bytes or handle many objects.

use crate::output::Printer;
use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar in bytes. It is hidden with `--json`, and when the output is no terminal.
pub(crate) fn bytes_bar(printer: &Printer) -> ProgressBar {
    bar(printer, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
}

/// A progress bar that counts objects. It is hidden with `--json`, and when the output is no terminal.
pub(crate) fn objects_bar(printer: &Printer) -> ProgressBar {
    bar(printer, "{bar:40} {pos}/{len} objects {eta}")
}

fn bar(printer: &Printer, template: &str) -> ProgressBar {
    let bar = if printer.is_json() { ProgressBar::hidden() } else { ProgressBar::new(0) };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Sets the bar to `done` of `total` bytes or objects.
pub(crate) fn show(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}
