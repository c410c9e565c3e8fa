//! Commands about a database as a whole: its settings, its clones and replicas, its removal, and the way of a clone
//! back to its parent.

pub(crate) mod clones;
pub(crate) mod remove;
pub(crate) mod reset;
pub(crate) mod seed;
mod seed_script;
pub(crate) mod settings;
