//! `atollctl ui`: a page about one database, for a browser on this machine: time line, space, cost. Reads only.

use crate::figures::cost::{CostOptions, CostReport, report_of};
use crate::figures::ui_server::{Server, Site};
use crate::output::{Printer, now_ms};
use clap::Args;
use objstore::StoreError;
use objstore::protocol::{DatabaseStatus, Inspector, SnapshotStatus, SpaceObject};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// A fence, which ends the roots of an epoch, has this size; no root does (docs/internals/formats-bucket.md, FMT-W4).
const FENCE_BYTES: u64 = 137;

/// How to serve.
#[derive(Args)]
pub(crate) struct UiOptions {
    /// Port on the loopback interface. 0: a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    cost: CostOptions,
}

/// What the page draws.
#[derive(Serialize)]
struct Page {
    place: String,
    db_uuid: String,
    owner: String,
    now_ms: u64,
    /// When each root was made, by the bucket's clock, ascending.
    roots: Vec<u64>,
    states: Vec<SnapshotStatus>,
    cost: CostReport,
    /// Requests that this look took.
    requests: u64,
}

/// Serves until it is interrupted.
///
/// Errors: `Invalid` when the port is taken or the price list cannot be read; `NotFound` without a
/// database. Requests: those of [`Inspector::status`], [`Inspector::snapshots`] and
/// [`Inspector::space`], each time the page is loaded, at most each 2 s.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    options: &UiOptions,
) -> Result<bool, StoreError> {
    // Without a database this fails here, and not only in the browser.
    inspector.status().await?;
    let server = Server::bind(options.port).await?;
    if printer.is_json() {
        printer.json(&serde_json::json!({ "url": server.url() }));
    } else {
        printer.line(&format!("open {} in a browser on this machine; Ctrl-C ends", server.url()));
    }
    let (inspector, cost) = (inspector.clone(), options.cost.clone());
    let site = Site::new(move || {
        let (inspector, cost) = (inspector.clone(), cost.clone());
        async move {
            let page = look(&inspector, &cost).await.map_err(|error| error.to_string())?;
            serde_json::to_vec(&page).map_err(|error| error.to_string())
        }
    });
    server.serve(site).await
}

async fn look(inspector: &Inspector, options: &CostOptions) -> Result<Page, StoreError> {
    let before = requests(inspector);
    let status = inspector.status().await?;
    let states = inspector.snapshots().await?;
    let space = inspector.space().await?;
    Ok(Page {
        owner: owner(&status),
        place: status.place,
        db_uuid: status.db_uuid,
        now_ms: now_ms(),
        roots: roots(&space.objects),
        states,
        cost: report_of(&space, options)?,
        requests: requests(inspector) - before,
    })
}

fn owner(status: &DatabaseStatus) -> String {
    match &status.owner {
        Some(owner) if owner.closed => format!("closed cleanly by '{}'", owner.server_id),
        Some(owner) => format!("owned by '{}' (epoch {}), if it lives", owner.server_id, owner.epoch),
        None => "of which no owner is known".to_owned(),
    }
}

/// The times of roots. Read from the listing, because ten thousand roots would be as many requests.
fn roots(objects: &[SpaceObject]) -> Vec<u64> {
    let is_root = |object: &&SpaceObject| {
        let slot = object.key.strip_prefix("root/").and_then(|key| key.split_once('/'));
        slot.is_some_and(|(_, slot)| slot.parse::<u64>().is_ok_and(|slot| slot > 0))
            && object.bytes != FENCE_BYTES
    };
    let mut times: Vec<u64> = objects.iter().filter(is_root).map(|object| object.written_ms).collect();
    times.sort_unstable();
    times
}

fn requests(inspector: &Inspector) -> u64 {
    let stats = inspector.requests();
    [
        &stats.requests_get,
        &stats.requests_put,
        &stats.requests_head,
        &stats.requests_list,
        &stats.requests_delete,
    ]
    .iter()
    .map(|count| count.load(Ordering::Relaxed))
    .sum()
}
