//! `atollctl ui`: serves a page about one database to a browser on this machine. It shows a time line, space
//! and cost. Nothing is written to the bucket.

use crate::figures::cost::{CostOptions, CostReport, report_of};
use crate::figures::ui_server::{Server, Site};
use crate::output::{Printer, now_ms};
use crate::{is_alive, life};
use clap::Args;
use objstore::StoreError;
use objstore::protocol::{DatabaseStatus, Inspector, LastProof, SnapshotStatus, SpaceObject};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// The size of a fence, the record that ends the roots of an epoch. No root has this size, so a listing tells
/// fences from roots (docs/internals/formats-bucket.md, FMT-W4).
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

/// The data that the page draws. The browser gets it as JSON.
#[derive(Serialize)]
struct Page {
    url: String,
    place: String,
    db_uuid: String,
    owner: String,
    health: Health,
    now_ms: u64,
    /// The time at which each root was created, in milliseconds since 1970 by the bucket's clock, ascending.
    roots: Vec<u64>,
    states: Vec<SnapshotStatus>,
    cost: CostReport,
    /// The number of requests that collecting this page's data took.
    requests: u64,
}

/// What the page shows first: whether the database is looked after.
#[derive(Serialize)]
struct Health {
    /// The last sign of life of the owner, in milliseconds since 1970. None: no server owns the database.
    owner_seen_ms: Option<u64>,
    /// Whether the owner gave its last sign of life in time.
    is_owner_alive: bool,
    /// None: nobody has proved that the database can be restored.
    proof: Option<LastProof>,
}

/// Serves until it is interrupted. `url`: the address of the database, which the page shows.
///
/// Errors: `Invalid` when the port is taken or the price list cannot be read; `NotFound` without a
/// database. Requests: as [`Inspector::status`], [`Inspector::snapshots`] and
/// [`Inspector::space`], each time the page is loaded, at most each 2 s.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    url: &str,
    options: &UiOptions,
) -> Result<bool, StoreError> {
    // If there is no database, the command fails here instead of showing the error in the browser only.
    inspector.status().await?;
    let server = Server::bind(options.port).await?;
    if printer.is_json() {
        printer.json(&serde_json::json!({ "url": server.url() }));
    } else {
        printer.line(&format!("open {} in a browser on this machine; Ctrl-C ends", server.url()));
    }
    let (inspector, cost, url) = (inspector.clone(), options.cost.clone(), url.to_owned());
    let site = Site::new(move || {
        let (inspector, cost, url) = (inspector.clone(), cost.clone(), url.clone());
        async move {
            let page = look(&inspector, &url, &cost).await.map_err(|error| error.to_string())?;
            serde_json::to_vec(&page).map_err(|error| error.to_string())
        }
    });
    server.serve(site).await
}

async fn look(inspector: &Inspector, url: &str, options: &CostOptions) -> Result<Page, StoreError> {
    let before = requests(inspector);
    let status = inspector.status().await?;
    let states = inspector.snapshots().await?;
    let space = inspector.space().await?;
    Ok(Page {
        owner: owner(&status),
        health: health(&status, inspector.last_proof().await?),
        url: url.to_owned(),
        place: status.place,
        db_uuid: status.db_uuid,
        now_ms: now_ms(),
        roots: roots(&space.objects),
        states,
        cost: report_of(&space, options)?,
        requests: requests(inspector) - before,
    })
}

fn health(status: &DatabaseStatus, proof: Option<LastProof>) -> Health {
    let owner = status.owner.as_ref().filter(|owner| !owner.closed);
    Health {
        owner_seen_ms: owner.map(|owner| owner.seen_ms),
        is_owner_alive: owner.is_some_and(is_alive),
        proof,
    }
}

fn owner(status: &DatabaseStatus) -> String {
    match &status.owner {
        Some(owner) if owner.closed => format!("closed cleanly by '{}'", owner.server_id),
        Some(owner) => format!("owned by '{}' (epoch {}), {}", owner.server_id, owner.epoch, life(owner)),
        None => "of which no owner is known".to_owned(),
    }
}

/// The times at which the roots were created, taken from the listing of `objects`: reading the roots
/// themselves would take a request for each of perhaps ten thousand roots.
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
