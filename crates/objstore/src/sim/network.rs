//! The network and the bucket of a simulation. The seed decides what happens to each request.
//!
//! A task of its own carries out each request. So a request can be carried out late or twice, overtake other
//! requests, and be carried out although its sender has given up or died. The bucket itself is correct: a
//! create-only PUT creates its object once, and reads and listings show all earlier writes. But now and then a
//! listing of claims lacks the newest claim for a short time, or something answers in place of the bucket
//! (`wrong.rs`).

use super::wrong::Wrong;
use super::{below, elapsed, note, once_in};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest delay of a request that is carried out late. A request that gets no answer fails after this
/// time, too.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(30);

/// A stale listing lacks the newest claim if that claim is younger than this. A server that dies takes longer
/// to start again, so it always sees its own earlier claims.
const STALE_MAX: Duration = Duration::from_millis(800);

/// The prefix of the names of all claims.
const CLAIMS: &str = "db/epoch";

/// What happens to one request. The seed chooses it ([`Network::fate`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The request is carried out once and answered.
    Arrives,
    /// The request never arrives, and its sender gets a broken connection.
    Lost,
    /// The request is carried out, and its reply is lost.
    ReplyLost,
    /// The request is carried out, and its sender gets no answer. After [`LATE_MAX`] the connection breaks.
    Hangs,
    /// The sender gets a broken connection, and the request is carried out later.
    LandsLate,
    /// The request is carried out and answered, and later carried out once more.
    Repeats,
    /// The request is not carried out and is answered with HTTP 503.
    Busy,
    /// A PUT is not carried out and is answered with HTTP 409, which does not tell whose PUT has created the
    /// object. Other requests are carried out normally.
    Conflict,
    /// A PUT is carried out, but is answered with HTTP 409. Other requests are carried out normally.
    ConflictAfterApply,
    /// One bit in the body of the reply to a GET is changed.
    Damaged,
    /// A listing of claims lacks the newest claim if it was created only just now.
    Stale,
    /// A listing shows nothing, and the GET of a root does not find it, whatever is there.
    Lies,
    /// A listing shows only its first objects.
    Short,
}

const FATES: [Fate; 12] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::Hangs,
    Fate::LandsLate,
    Fate::Repeats,
    Fate::Busy,
    Fate::Conflict,
    Fate::ConflictAfterApply,
    Fate::Damaged,
    Fate::Stale,
    Fate::Lies,
    Fate::Short,
];

/// The kind of a request. The trace shows it, and [`Fate`] treats PUTs differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Put,
    Get,
    Delete,
    List,
}

/// A function that is called for every object that was created, overwritten or deleted, before any other code
/// runs.
pub(crate) type OnLanded = Box<dyn Fn(Verb, &str) + Send + Sync>;

/// The bucket, and the network between it and all servers.
pub(crate) struct Network {
    /// The bucket itself.
    pub(crate) store: Arc<InMemory>,
    /// n if one request in n is disturbed; 0 if none is.
    hurt_one_in: AtomicU64,
    on_landed: Mutex<Option<Arc<OnLanded>>>,
    /// The virtual time at which the newest claim was created. None: there is no claim yet.
    claimed: Mutex<Option<Duration>>,
    wrong: Wrong,
}

/// The connection of one server to the bucket.
pub(crate) struct Line {
    network: Arc<Network>,
    server: u64,
    is_cut: AtomicBool,
}

impl Network {
    /// An empty bucket and a network that disturbs no requests.
    pub(crate) fn new() -> Arc<Self> {
        let (hurt_one_in, on_landed, claimed, wrong) = Default::default();
        Arc::new(Self { store: Arc::new(InMemory::new()), hurt_one_in, on_landed, claimed, wrong })
    }

    /// From now on one listing in `one_in` of the prefix `about`, which begins with `db/`, is answered wrongly,
    /// besides what [`Self::hurt`] does.
    pub(crate) fn lie(&self, one_in: u64, about: &'static str) {
        self.wrong.lie(Some((one_in, about)));
    }

    /// Ends what [`Self::lie`] has begun.
    pub(crate) fn tell_the_truth(&self) {
        self.wrong.lie(None);
    }

    /// From now on the network disturbs one request in `one_in` on average. 0: it disturbs none.
    pub(crate) fn hurt(&self, one_in: u64) {
        self.hurt_one_in.store(one_in, Ordering::Relaxed);
    }

    /// Sets the function that is called for every change of the bucket.
    pub(crate) fn on_landed(&self, hear: OnLanded) {
        *self.on_landed.lock() = Some(Arc::new(hear));
    }

    /// A new connection to the bucket, for one process of the server with the number `server`.
    pub(crate) fn line(self: &Arc<Self>, server: u64) -> Arc<Line> {
        Arc::new(Line { network: Arc::clone(self), server, is_cut: AtomicBool::new(false) })
    }

    fn fate(&self) -> Fate {
        let one_in = self.hurt_one_in.load(Ordering::Relaxed);
        if one_in == 0 || !once_in(one_in) {
            return Fate::Arrives;
        }
        FATES[below(FATES.len() as u64) as usize]
    }

    fn landed(&self, verb: Verb, name: &str) {
        if name.starts_with(CLAIMS) {
            self.claimed.lock().replace(elapsed());
        }
        let hear = self.on_landed.lock().clone();
        if let Some(hear) = hear {
            hear(verb, name.strip_prefix("db/").unwrap_or(name));
        }
    }

    /// Waits as long as a request or reply travels: mostly up to 12 ms, one in 20 times up to 400 ms.
    async fn travel() {
        let ms = if once_in(20) { below(400) } else { 1 + below(12) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn be_late() {
        tokio::time::sleep(Duration::from_millis(below(LATE_MAX.as_millis() as u64))).await;
    }
}

impl Line {
    /// Cuts the connection of a process that has died: from now on it sends no requests and gets no replies.
    /// Requests under way are still carried out.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Sends a request. `apply` carries it out in the bucket.
    async fn send<T: Send + 'static>(
        &self,
        verb: Verb,
        name: &str,
        apply: impl Fn(Fate) -> BoxFuture<'static, Result<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let (reply, answer) = oneshot::channel();
        let request =
            Request { network: self.network.clone(), server: self.server, verb, name: name.to_owned() };
        let fate = self.network.wrong.fate(self.server, verb, name, self.network.fate());
        tokio::spawn(async move {
            Network::travel().await;
            if let Some(outcome) = request.meet(fate, &apply).await {
                Network::travel().await;
                let _ = reply.send(outcome);
            } else {
                // No answer comes, so the sender waits until its own time limit.
                let hangs = tokio::time::sleep(LATE_MAX);
                hangs.await;
                drop(reply);
            }
            if fate == Fate::LandsLate || fate == Fate::Repeats {
                Network::be_late().await;
                let _ = request.carry_out(fate, &apply).await;
            }
        });
        let outcome = answer.await;
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        outcome.unwrap_or_else(|_| Err(lost("the connection was closed")))
    }
}

struct Request {
    network: Arc<Network>,
    server: u64,
    verb: Verb,
    name: String,
}

impl Request {
    /// Lets `fate` happen to the request. Returns the reply that its sender gets. None: the sender gets no
    /// reply.
    async fn meet<T>(
        &self,
        fate: Fate,
        apply: &(impl Fn(Fate) -> BoxFuture<'static, Result<T>> + Send + Sync),
    ) -> Option<Result<T>> {
        match fate {
            Fate::Lost | Fate::LandsLate => {
                self.note(fate, "is not answered");
                Some(Err(lost("the connection was closed before the reply came")))
            }
            Fate::Busy => {
                self.note(fate, "503");
                Some(Err(lost(
                    "Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>",
                )))
            }
            Fate::Conflict if self.verb == Verb::Put => {
                self.note(fate, "409");
                Some(Err(conflict(&self.name)))
            }
            Fate::ConflictAfterApply if self.verb == Verb::Put => {
                let _ = self.carry_out(fate, apply).await;
                Some(Err(conflict(&self.name)))
            }
            Fate::ReplyLost => {
                let _ = self.carry_out(fate, apply).await;
                Some(Err(lost("the connection was closed before the reply came")))
            }
            Fate::Hangs => {
                let _ = self.carry_out(fate, apply).await;
                None
            }
            _ => Some(self.carry_out(fate, apply).await),
        }
    }

    async fn carry_out<T>(
        &self,
        fate: Fate,
        apply: &(impl Fn(Fate) -> BoxFuture<'static, Result<T>> + Send + Sync),
    ) -> Result<T> {
        let outcome = apply(fate).await;
        let answer = match &outcome {
            Ok(_) => "done",
            Err(Error::NotFound { .. }) => "404",
            Err(Error::AlreadyExists { .. }) => "412",
            Err(_) => "failed",
        };
        self.note(fate, answer);
        if outcome.is_ok() && matches!(self.verb, Verb::Put | Verb::Delete) {
            self.network.landed(self.verb, &self.name);
        }
        outcome
    }

    fn note(&self, fate: Fate, answer: &str) {
        let fate = if fate == Fate::Arrives { String::new() } else { format!(" ({fate:?})") };
        note(&format!("server {} {:?} {}: {answer}{fate}", self.server, self.verb, self.name));
    }
}

fn lost(text: &str) -> Error {
    Error::Generic { store: "simulation", source: text.to_owned().into() }
}

fn conflict(path: &str) -> Error {
    let answer = "Server returned non-2xx status code: 409 Conflict: <Code>ConditionalRequestConflict</Code>";
    Error::AlreadyExists { path: path.to_owned(), source: answer.into() }
}

fn not_implemented(operation: &str) -> Error {
    Error::NotImplemented { operation: operation.to_owned(), implementer: "Line".to_owned() }
}

/// The body of a reply to a GET. One bit is changed if `fate` is `Damaged`.
async fn body_of(got: GetResult, fate: Fate) -> Result<GetResult> {
    let (range, meta) = (got.range.clone(), got.meta.clone());
    let mut bytes = got.bytes().await?.to_vec();
    if fate == Fate::Damaged && !bytes.is_empty() {
        let victim = below(bytes.len() as u64) as usize;
        bytes[victim] ^= 1 << below(8);
    }
    let body = stream::once(async move { Ok(Bytes::from(bytes)) }).boxed();
    let (attributes, extensions) = Default::default();
    Ok(GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes, extensions })
}

/// Carries out a listing. If `fate` is `Stale`, a listing of claims lacks the newest claim; if it is `Lies`, the
/// listing is empty; if it is `Short`, it ends early.
async fn listed(
    network: Arc<Network>,
    prefix: Option<Path>,
    offset: Option<Path>,
    fate: Fate,
) -> Result<Vec<ObjectMeta>> {
    let store = &network.store;
    let keys = match &offset {
        Some(offset) => store.list_with_offset(prefix.as_ref(), offset),
        None => store.list(prefix.as_ref()),
    };
    let mut metas: Vec<ObjectMeta> = keys.try_collect().await?;
    if fate == Fate::Lies {
        metas.clear();
    }
    if fate == Fate::Short && !metas.is_empty() {
        metas.truncate(below(metas.len() as u64) as usize);
    }
    if fate == Fate::Stale
        && prefix.is_some_and(|prefix| prefix.as_ref() == CLAIMS)
        && network.claimed.lock().is_some_and(|claimed| elapsed() < claimed + STALE_MAX)
    {
        metas.pop();
    }
    Ok(metas)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.server)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.server)
    }
}

impl Line {
    fn pages(
        self: Arc<Self>,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.cloned());
        let name = prefix.as_ref().map(Path::to_string).unwrap_or_default();
        let page = async move {
            let network = Arc::clone(&self.network);
            let list = move |fate| listed(network.clone(), prefix.clone(), offset.clone(), fate).boxed();
            self.send(Verb::List, &name, list).await.map(|metas| stream::iter(metas.into_iter().map(Ok)))
        };
        stream::once(page).try_flatten().boxed()
    }
}

/// An [`ObjectStore`] that sends its requests over a [`Line`].
#[derive(Debug, Clone)]
pub(crate) struct Remote(pub(crate) Arc<Line>);

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Remote {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (store, path) = (self.0.network.store.clone(), location.clone());
        let put = move |_| {
            let (store, path, payload, opts) = (store.clone(), path.clone(), payload.clone(), opts.clone());
            async move { store.put_opts(&path, payload, opts).await }.boxed()
        };
        self.0.send(Verb::Put, location.as_ref(), put).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(not_implemented("put_multipart_opts"))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (store, path) = (self.0.network.store.clone(), location.clone());
        let get = move |fate| {
            let (store, path, options) = (store.clone(), path.clone(), options.clone());
            async move {
                if fate == Fate::Lies && !options.head {
                    return Err(Error::NotFound { path: path.to_string(), source: "a wrong answer".into() });
                }
                body_of(store.get_opts(&path, options).await?, fate).await
            }
            .boxed()
        };
        self.0.send(Verb::Get, location.as_ref(), get).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let line = Arc::clone(&self.0);
        locations
            .then(move |location| {
                let line = Arc::clone(&line);
                async move {
                    let location = location?;
                    let (store, path) = (line.network.store.clone(), location.clone());
                    let delete = move |_| {
                        let (store, path) = (store.clone(), path.clone());
                        async move { store.delete(&path).await }.boxed()
                    };
                    line.send(Verb::Delete, location.as_ref(), delete).await.map(|()| location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.clone().pages(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.clone().pages(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(not_implemented("list_with_delimiter"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(not_implemented("copy_opts"))
    }
}
