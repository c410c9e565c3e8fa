//! A store that fails on purpose, for tests. It wraps another store and injects a fault into the request at a
//! chosen position, or into random requests from a seed.
//!
//! The position of a request is its number in the order of arrival, from 0. All kinds count: get, put, head,
//! list, delete and the requests of an upload in pieces.

use crate::requests::bucket::Attempt;
use crate::requests::failure::Failure;
use crate::requests::unfinished::ListUploads;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartId, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What goes wrong with one request. A test chooses it, or a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request never arrives.
    LostRequest,
    /// The request is carried out, and its reply is lost.
    LostReply,
    /// The request is not carried out and is answered with HTTP 409, which does not tell whose request has
    /// created the object.
    Conflict,
    /// The request is carried out, but is answered with HTTP 409.
    ConflictAfterApply,
    /// The request is not carried out and is answered with HTTP 503.
    Busy,
    /// The request is carried out 20 ms later. Listings and deletions are carried out at once.
    Delay,
    /// A GET returns bytes with one bit flipped. Requests of other kinds are carried out normally.
    CorruptBody,
}

impl Fault {
    /// All kinds of faults, for tests that try each.
    pub const ALL: [Fault; 7] = [
        Fault::LostRequest,
        Fault::LostReply,
        Fault::Conflict,
        Fault::ConflictAfterApply,
        Fault::Busy,
        Fault::Delay,
        Fault::CorruptBody,
    ];
}

#[derive(Default)]
struct Plan {
    at: HashMap<u64, Fault>,
    /// The state of the random number generator, and n if one request in n fails. None: no request fails at
    /// random.
    random: Option<(u64, u64)>,
    /// While set, every request is lost.
    outage: bool,
    /// The request at this position and all later ones are lost. None: no request is lost for this reason.
    end_at: Option<u64>,
    /// While set, every DELETE is answered with 403.
    refuse_deletes: bool,
}

/// A store that passes requests on to `inner`, except those that its plan makes fail.
pub struct FaultStore<S> {
    /// The wrapped store. Tests read it to see what was really stored.
    pub inner: Arc<S>,
    plan: Mutex<Plan>,
    requests: AtomicU64,
    delay: Duration,
    /// Uploads in pieces that were begun and neither completed nor aborted, with their full names.
    unfinished: Mutex<BTreeMap<MultipartId, String>>,
}

impl<S> FaultStore<S> {
    /// Wraps `inner`. No request fails until a test asks for faults.
    pub fn new(inner: Arc<S>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plan: Mutex::default(),
            requests: AtomicU64::new(0),
            delay: Duration::from_millis(20),
            unfinished: Mutex::default(),
        })
    }

    /// Injects `fault` into the request that comes `position` requests after the next one (0: into the next
    /// one).
    pub fn hurt(&self, position: u64, fault: Fault) {
        let base = self.requests.load(Ordering::SeqCst);
        self.plan.lock().at.insert(base + position, fault);
    }

    /// Injects random faults into one in `one_in` requests. `seed` determines which.
    pub fn hurt_randomly(&self, seed: u64, one_in: u64) {
        self.plan.lock().random = Some((seed | 1, one_in.max(1)));
    }

    /// Loses every request while `on`.
    pub fn outage(&self, on: bool) {
        self.plan.lock().outage = on;
    }

    /// Carries out the next `position` requests and loses all later ones. The bucket sees the same when a
    /// process is killed.
    pub fn end_at(&self, position: u64) {
        let base = self.requests.load(Ordering::SeqCst);
        self.plan.lock().end_at = Some(base + position);
    }

    /// Refuses every DELETE while `on`, as a policy without that permission does.
    pub fn refuse_deletes(&self, on: bool) {
        self.plan.lock().refuse_deletes = on;
    }

    /// Ends all faults.
    pub fn heal(&self) {
        *self.plan.lock() = Plan::default();
    }

    /// How many uploads in pieces were begun and neither completed nor aborted.
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.lock().len()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn next(&self) -> Option<Fault> {
        let position = self.requests.fetch_add(1, Ordering::SeqCst);
        let mut plan = self.plan.lock();
        if plan.outage || plan.end_at.is_some_and(|end| position >= end) {
            return Some(Fault::LostRequest);
        }
        if let Some(fault) = plan.at.remove(&position) {
            return Some(fault);
        }
        let (state, one_in) = plan.random.as_mut()?;
        let roll = xorshift(state);
        let kind = (xorshift(state) % Fault::ALL.len() as u64) as usize;
        if roll.is_multiple_of(*one_in) { Fault::ALL.get(kind).copied() } else { None }
    }

    /// Runs `call` with the fault that is due for this request, if there is one.
    async fn run<T>(&self, path: &str, call: impl Future<Output = Result<T>>) -> Result<(T, Option<Fault>)> {
        let fault = self.next();
        match fault {
            None | Some(Fault::CorruptBody) => Ok((call.await?, fault)),
            Some(Fault::LostRequest) => Err(lost("the connection was closed before the request was sent")),
            Some(Fault::Busy) => Err(lost(
                "Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>",
            )),
            Some(Fault::Conflict) => Err(conflict(path)),
            Some(Fault::LostReply) => {
                let _ = call.await;
                Err(lost("the connection was closed before the reply came"))
            }
            Some(Fault::ConflictAfterApply) => {
                let _ = call.await;
                Err(conflict(path))
            }
            Some(Fault::Delay) => {
                tokio::time::sleep(self.delay).await;
                Ok((call.await?, fault))
            }
        }
    }
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn lost(text: &str) -> Error {
    Error::Generic { store: "fault", source: text.to_owned().into() }
}

fn refused(path: &str) -> Error {
    let answer = "Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>";
    Error::PermissionDenied { path: path.to_owned(), source: answer.into() }
}

fn conflict(path: &str) -> Error {
    Error::AlreadyExists {
        path: path.to_owned(),
        source: "Server returned non-2xx status code: 409 Conflict: \
                 <Code>ConditionalRequestConflict</Code>"
            .into(),
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({:?})", self.inner)
    }
}

impl<S: fmt::Display> fmt::Display for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for FaultStore<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let call = self.inner.put_opts(location, payload, opts);
        self.run(location.as_ref(), call).await.map(|(put, _)| put)
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented {
            operation: "put_multipart_opts: use MultipartStore".to_owned(),
            implementer: "FaultStore".to_owned(),
        })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let call = self.inner.get_opts(location, options);
        // Stores answer 409 to conditional writes only, never to a GET, and the bucket does not repeat a GET
        // after a 409. So a GET gets a lost reply instead.
        let (mut got, fault) = self.run(location.as_ref(), call).await.map_err(|error| match error {
            Error::AlreadyExists { .. } => lost("the connection was closed before the reply came"),
            error => error,
        })?;
        if fault == Some(Fault::CorruptBody) {
            let range = got.range.clone();
            let meta = got.meta.clone();
            let mut bytes = got.bytes().await?.to_vec();
            // Each time a different byte is damaged. The reader takes the same damage in two replies for
            // damage of the stored object.
            let victim = self.requests() as usize % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(victim) {
                *byte ^= 0x10;
            }
            let body = futures_util::stream::once(async move { Ok(Bytes::from(bytes)) }).boxed();
            got = GetResult {
                payload: GetResultPayload::Stream(body),
                meta,
                range,
                attributes: Default::default(),
                extensions: Default::default(),
            };
        }
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let fault = self.next();
        let is_refused = self.plan.lock().refuse_deletes;
        let inner = Arc::clone(&self.inner);
        locations
            .then(move |location| {
                let inner = Arc::clone(&inner);
                async move {
                    let location = location?;
                    if is_refused {
                        return Err(refused(location.as_ref()));
                    }
                    if !matches!(fault, None | Some(Fault::LostReply | Fault::Delay | Fault::CorruptBody)) {
                        return Err(lost("the request was lost"));
                    }
                    inner.delete(&location).await?;
                    match fault {
                        Some(Fault::LostReply) => Err(lost("the reply was lost")),
                        _ => Ok(location),
                    }
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next() {
            None | Some(Fault::Delay | Fault::CorruptBody) => self.inner.list(prefix),
            Some(_) => futures_util::stream::once(async { Err(lost("the listing was lost")) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.run("list", self.inner.list_with_delimiter(prefix)).await.map(|(list, _)| list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.run(to.as_ref(), self.inner.copy_opts(from, to, options)).await.map(|_| ())
    }
}

#[async_trait]
impl<S: MultipartStore> MultipartStore for FaultStore<S> {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let call = async {
            let id = self.inner.create_multipart(path).await?;
            self.unfinished.lock().insert(id.clone(), path.as_ref().to_owned());
            Ok(id)
        };
        self.run(path.as_ref(), call).await.map(|(id, _)| id)
    }

    async fn create_multipart_opts(&self, path: &Path, _opts: PutMultipartOptions) -> Result<MultipartId> {
        self.create_multipart(path).await
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part_idx: usize,
        payload: PutPayload,
    ) -> Result<PartId> {
        let call = self.inner.put_part(path, id, part_idx, payload);
        self.run(path.as_ref(), call).await.map(|(part, _)| part)
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let call = async {
            let put = self.inner.complete_multipart(path, id, parts).await?;
            self.unfinished.lock().remove(id);
            Ok(put)
        };
        self.run(path.as_ref(), call).await.map(|(put, _)| put)
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let call = async {
            self.inner.abort_multipart(path, id).await?;
            self.unfinished.lock().remove(id);
            Ok(())
        };
        self.run(path.as_ref(), call).await.map(|_| ())
    }
}

#[async_trait]
impl<S: MultipartStore> ListUploads for FaultStore<S> {
    async fn list_uploads(&self, prefix: &str) -> Attempt<Vec<(String, MultipartId)>> {
        let call = async {
            let unfinished = self.unfinished.lock();
            let below = unfinished.iter().filter(|(_, path)| path.starts_with(prefix));
            Ok(below.map(|(id, path)| (path.clone(), id.clone())).collect())
        };
        self.run(prefix, call).await.map(|(uploads, _)| uploads).map_err(|e| Failure::new(&e))
    }
}

/// A bucket whose objects are in memory and whose requests go through a [`FaultStore`]. The waits between
/// attempts are short, 1 to 5 ms.
pub fn faulty_bucket() -> (crate::Bucket, Arc<FaultStore<object_store::memory::InMemory>>) {
    let store = FaultStore::new(Arc::new(object_store::memory::InMemory::new()));
    let bucket = crate::Bucket::new(crate::requests::bucket::Parts {
        multipart: Some(Arc::clone(&store) as _),
        uploads: Some(Arc::clone(&store) as _),
        policy: crate::requests::retry::RetryPolicy {
            delay_min: Duration::from_millis(1),
            delay_max: Duration::from_millis(5),
            ..Default::default()
        },
        ..crate::requests::bucket::Parts::in_process(Arc::clone(&store) as _, "memory with faults")
    });
    (bucket, store)
}
