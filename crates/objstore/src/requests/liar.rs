//! A store in memory that breaks one promise of S3, for the tests of certify.

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How the store breaks its promise. The test chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A create-only PUT replaces an existing object.
    Overwrites,
    /// A create-only PUT checks whether the name exists and writes 1 ms later, so that another write can come
    /// in between.
    LooksThenWrites,
    /// A listing that would have a single object is empty, as if the object were not yet visible.
    ListsLate,
    /// Listings are in descending order.
    ListsInOtherOrder,
    /// A listing ends after its first page.
    ForgetsAPage,
    /// A listing ignores the name after which it should begin.
    IgnoresStartAfter,
    /// A ranged GET returns the right number of bytes, but from the start of the object.
    IgnoresRanges,
    /// DELETE does nothing.
    KeepsDeleted,
    /// The two pieces of an upload are put together in the wrong order.
    MixesPieces,
}

#[derive(Debug)]
struct Liar {
    inner: Arc<InMemory>,
    lie: Lie,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Liar({:?})", self.lie)
    }
}

impl Liar {
    fn listed(&self, metas: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        match self.lie {
            Lie::ListsLate if metas.len() == 1 => Vec::new(),
            Lie::ListsInOtherOrder => metas.into_iter().rev().collect(),
            Lie::ForgetsAPage => metas.into_iter().take(1000).collect(),
            _ => metas,
        }
    }

    fn altered(
        &self,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let liar = Self { inner: Arc::clone(&self.inner), lie: self.lie };
        let metas = async move {
            let metas: Vec<_> = listing.try_collect().await?;
            Ok::<_, object_store::Error>(stream::iter(liar.listed(metas).into_iter().map(Ok)))
        };
        stream::once(metas).try_flatten().boxed()
    }
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        if options.mode == PutMode::Create {
            match self.lie {
                Lie::Overwrites => options.mode = PutMode::Overwrite,
                Lie::LooksThenWrites if self.inner.head(path).await.is_err() => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    options.mode = PutMode::Overwrite;
                }
                _ => {}
            }
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, mut options: GetOptions) -> Result<GetResult> {
        if self.lie == Lie::IgnoresRanges
            && let Some(object_store::GetRange::Bounded(range)) = &mut options.range
        {
            *range = 0..range.end - range.start;
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.lie {
            Lie::KeepsDeleted => paths,
            _ => self.inner.delete_stream(paths),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.altered(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        after: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.lie {
            Lie::IgnoresStartAfter => self.inner.list(prefix),
            _ => self.altered(self.inner.list_with_offset(prefix, after)),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl MultipartStore for Liar {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.inner.create_multipart(path).await
    }

    async fn create_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<MultipartId> {
        self.inner.create_multipart_opts(path, options).await
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        index: usize,
        payload: PutPayload,
    ) -> Result<PartId> {
        let index = if self.lie == Lie::MixesPieces { 1 - index } else { index };
        self.inner.put_part(path, id, index, payload).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.inner.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.inner.abort_multipart(path, id).await
    }
}

/// A bucket in memory that breaks the promise `lie`.
pub(crate) fn lying_bucket(lie: Lie) -> crate::Bucket {
    let store = Arc::new(Liar { inner: Arc::new(InMemory::new()), lie });
    crate::Bucket::new(crate::requests::bucket::Parts {
        multipart: Some(Arc::clone(&store) as _),
        ..crate::requests::bucket::Parts::in_process(store, "a memory that lies")
    })
}
