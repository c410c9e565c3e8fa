//! A store in memory for tests. A test chooses a kind of request and a part of a name, and the store lets
//! such requests hang or fail. It counts the requests and the bytes that they send.
//!
//! `fault.rs` chooses the request to fail by its position; this store chooses it by its kind and name. And
//! this store's listings have pages, each of which counts as one request.

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kinds of requests that a test can make hang or fail. Other requests are always carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
    List,
}

/// What happens to a request to which a [`Rule`] applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hurt {
    /// The request is not carried out, and no answer ever comes.
    Hangs,
    /// The request is not carried out, and the connection is closed.
    Fails,
    /// The request is carried out after this time.
    Waits(Duration),
    /// The request is not carried out, and the answer is that nothing is there.
    Lies,
}

/// Applies to requests of the kind `verb` for names that contain `part`. The first `skip` of them are carried
/// out; `hurt` happens to the next `count`.
#[derive(Debug)]
struct Rule {
    verb: Verb,
    part: &'static str,
    skip: u32,
    count: u32,
    hurt: Hurt,
}

#[derive(Debug, Default)]
struct Plan {
    rules: Mutex<Vec<Rule>>,
    /// All requests so far: kind, name and number of bytes sent.
    seen: Mutex<Vec<(Verb, String, usize)>>,
    /// How long every GET, PUT and page of a listing waits before it is carried out; 0: it does not wait.
    latency: Mutex<Duration>,
}

impl Plan {
    /// Counts one request and applies the first rule that matches it.
    async fn meet(&self, verb: Verb, name: &str, bytes: usize) -> Result<()> {
        self.seen.lock().push((verb, name.to_owned(), bytes));
        let latency = *self.latency.lock();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        match self.decide(verb, name) {
            None => Ok(()),
            Some(Hurt::Hangs) => std::future::pending().await,
            Some(Hurt::Fails) => {
                Err(Error::Generic { store: "stuck", source: "the connection was closed".into() })
            }
            Some(Hurt::Lies) => Err(Error::NotFound { path: name.to_owned(), source: "a lie".into() }),
            Some(Hurt::Waits(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    fn decide(&self, verb: Verb, name: &str) -> Option<Hurt> {
        let mut rules = self.rules.lock();
        let rule =
            rules.iter_mut().find(|rule| rule.verb == verb && name.contains(rule.part) && rule.count > 0)?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.count -= 1;
        Some(rule.hurt)
    }
}

/// The store in memory, with its rules and counts. A page of a listing has `page_keys` keys.
#[derive(Debug)]
pub(crate) struct StuckStore {
    inner: InMemory,
    plan: Arc<Plan>,
    page_keys: usize,
}

impl StuckStore {
    /// Lets `hurt` happen to requests of the kind `verb` for names that contain `part`: after the next `skip`
    /// such requests, to `count` of them.
    pub(crate) fn hurt(&self, verb: Verb, part: &'static str, skip: u32, count: u32, hurt: Hurt) {
        self.plan.rules.lock().push(Rule { verb, part, skip, count, hurt });
    }

    /// Removes all rules: from now on every request is carried out.
    pub(crate) fn heal(&self) {
        self.plan.rules.lock().clear();
    }

    /// From now on every GET, PUT and page of a listing takes this long.
    pub(crate) fn set_latency(&self, latency: Duration) {
        *self.plan.latency.lock() = latency;
    }

    /// How many requests of the kind `verb` there were for names that contain `part`, since the last call of
    /// `forget`.
    pub(crate) fn seen(&self, verb: Verb, part: &str) -> usize {
        self.plan.seen.lock().iter().filter(|(seen, name, _)| *seen == verb && name.contains(part)).count()
    }

    /// The bytes sent by PUTs for names that contain `part`, since the last call of `forget`.
    pub(crate) fn bytes_put(&self, part: &str) -> usize {
        let seen = self.plan.seen.lock();
        let puts = seen.iter().filter(|(verb, name, _)| *verb == Verb::Put && name.contains(part));
        puts.map(|(_, _, bytes)| bytes).sum()
    }

    /// Sets all counts back to zero.
    pub(crate) fn forget(&self) {
        self.plan.seen.lock().clear();
    }

    /// Replaces the bytes of the object whose full name is `name`, without counting a request.
    pub(crate) fn replace(&self, name: &str, bytes: Vec<u8>) {
        let path = Path::from(name);
        let put = self.inner.put_opts(&path, bytes.into(), PutOptions::default());
        futures_util::FutureExt::now_or_never(put).unwrap().unwrap();
    }

    fn pages(
        &self,
        keys: BoxStream<'static, Result<ObjectMeta>>,
        name: String,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let plan = self.plan.clone();
        let pages = keys.chunks(self.page_keys).then(move |page| {
            let (plan, name) = (plan.clone(), name.clone());
            async move { plan.meet(Verb::List, &name, 0).await.map(|()| stream::iter(page)) }
        });
        pages.try_flatten().boxed()
    }
}

impl fmt::Display for StuckStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StuckStore")
    }
}

#[async_trait]
impl ObjectStore for StuckStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.plan.meet(Verb::Put, location.as_ref(), payload.content_length()).await?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.plan.meet(Verb::Get, location.as_ref(), 0).await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(self.inner.list(prefix), prefix.map(Path::to_string).unwrap_or_default())
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let keys = self.inner.list_with_offset(prefix, offset);
        self.pages(keys, prefix.map(Path::to_string).unwrap_or_default())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A bucket over a [`StuckStore`] whose listings have pages of `page_keys` keys. The time limit of a request
/// is `request_timeout`.
pub(crate) fn stuck_bucket(page_keys: usize, request_timeout: Duration) -> (crate::Bucket, Arc<StuckStore>) {
    let store = Arc::new(StuckStore { inner: InMemory::new(), plan: Arc::default(), page_keys });
    let bucket = crate::Bucket::new(crate::requests::bucket::Parts {
        policy: crate::requests::retry::RetryPolicy {
            delay_min: Duration::from_millis(1),
            request_timeout,
            ..Default::default()
        },
        ..crate::requests::bucket::Parts::in_process(store.clone(), "memory that hangs")
    });
    (bucket, store)
}
