//! What takes space, what it costs, and what is being published: as text, as JSON, and as a page.

pub(crate) mod cost;
pub(crate) mod diff;
pub(crate) mod du;
pub(crate) mod prices;
pub(crate) mod schema;
pub(crate) mod tail;
pub(crate) mod ui;
pub(crate) mod ui_server;
pub(crate) mod usage;
