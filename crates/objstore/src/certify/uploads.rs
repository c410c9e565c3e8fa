//! Checks uploads in pieces, what remains of an aborted upload, and uploads that are damaged on their way to
//! the bucket.

use super::{Finding, Seen, Verdict, failed, finding, ok};
use crate::error::{Result, StoreError};
use crate::requests::bucket::Bucket;
use crate::requests::failure::Failure;
use crate::requests::s3::direct::Answer;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, StatusCode};
use object_store::MultipartId;
use object_store::multipart::{MultipartStore, PartId};

/// The smallest piece that S3 allows. Only the last piece of an upload may be smaller.
const PIECE_BYTES: usize = 5 << 20;

/// Checks all properties of uploads, one after the other.
pub(super) async fn examine(bucket: &Bucket, damaging: Option<&Bucket>, place: &str) -> Vec<Finding> {
    let Some(multipart) = bucket.parts.multipart.as_deref() else {
        let text = "files are linked or copied into a directory; there are no uploads in pieces".to_owned();
        return vec![Finding { property: "multipart upload", verdict: Verdict::Note, text }];
    };
    let upload = Uploads { bucket, multipart, place };
    let mut findings = vec![finding("multipart upload", upload.two_pieces().await)];
    if bucket.parts.direct.is_some() {
        findings.push(finding("multipart, create-only", upload.create_only().await));
        findings.push(finding("multipart, given up", upload.leftovers().await));
    }
    if let Some(damaging) = damaging {
        findings.push(finding("checksum of an upload", damaged_whole(damaging, place).await));
        findings.push(finding("checksum of a piece", upload.damaged_piece(damaging).await));
    }
    findings
}

struct Uploads<'a> {
    bucket: &'a Bucket,
    multipart: &'a dyn MultipartStore,
    place: &'a str,
}

impl Uploads<'_> {
    /// Checks that the object is invisible before its upload is completed. After the completion it must have
    /// its two pieces in the right order, although they were sent in the wrong order.
    async fn two_pieces(&self) -> Result<Seen> {
        let key = format!("{}/pieces", self.place);
        let id = self.start(&key).await?;
        let pieces = [Bytes::from(vec![1; PIECE_BYTES]), Bytes::from_static(b"the last piece")];
        let last = self.send(self.bucket, &key, &id, 1, &pieces[1]).await?;
        let first = self.send(self.bucket, &key, &id, 0, &pieces[0]).await?;
        if !matches!(self.bucket.get(&key).await, Err(error) if error.is_not_found()) {
            return Ok(failed("an upload was to be seen before it was completed"));
        }
        self.complete(&key, &id, vec![first, last]).await?;
        let whole = self.bucket.get(&key).await?;
        Ok(if whole == pieces.concat() {
            ok("two pieces, sent in the wrong order, became one object in the right one")
        } else {
            failed("an object uploaded in two pieces has other bytes than were sent")
        })
    }

    /// Finds out whether the store supports create-only completion of an upload in pieces. Atoll does not
    /// rely on it.
    async fn create_only(&self) -> Result<Seen> {
        let key = format!("{}/pieces-once", self.place);
        self.bucket.put(&key, Bytes::from_static(b"there before")).await?;
        let id = self.start(&key).await?;
        let piece = self.send(self.bucket, &key, &id, 0, &Bytes::from_static(b"there later")).await?;
        let body = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            piece.content_id
        );
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let answer = self.direct(Method::POST, &key, &format!("uploadId={id}"), headers, body.into()).await?;
        let kept = self.bucket.get(&key).await? == b"there before"[..];
        // Whether or not the store has refused the completion, the unfinished upload must not stay.
        let _ = self.abort(&key, &id).await;
        let status = answer.status.as_u16();
        Ok(match (answer.status, kept) {
            (StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT, true) => {
                ok("a completed upload replaces nothing")
            }
            (_, true) => (
                Verdict::Note,
                format!("absent (HTTP {status}); Atoll gives each large file a name of its own"),
            ),
            (_, false) => {
                let text = "ignored: a completed upload replaces what was there; Atoll gives each large file a name of its own";
                (Verdict::Note, text.to_owned())
            }
        })
    }

    /// Checks that an unfinished upload is listed until it is aborted, and that then nothing of it remains.
    async fn leftovers(&self) -> Result<Seen> {
        let key = format!("{}/given-up", self.place);
        let id = self.start(&key).await?;
        self.send(self.bucket, &key, &id, 0, &Bytes::from_static(b"never completed")).await?;
        let by_folder = self.lists_upload(self.place, &id).await?;
        let by_name = self.lists_upload(&key, &id).await?;
        self.abort(&key, &id).await?;
        let still = self.lists_upload(&key, &id).await? || self.lists_upload(self.place, &id).await?;
        let there = !matches!(self.bucket.get(&key).await, Err(error) if error.is_not_found());
        Ok(match (there || still, by_folder, by_name) {
            (true, ..) => failed("an aborted upload is still there"),
            (false, true, _) => ok("listed until aborted, then gone"),
            (false, false, true) => (
                Verdict::Note,
                "gone when aborted; before, listed only when its whole name is asked for: a lifecycle rule that aborts \
                 unfinished uploads is the surer way to be rid of them"
                    .to_owned(),
            ),
            (false, false, false) => (
                Verdict::Warning,
                "gone when aborted; but unfinished uploads are not listed: make a lifecycle rule that aborts them".to_owned(),
            ),
        })
    }

    /// Checks that the store refuses a piece of an upload that was damaged on its way.
    async fn damaged_piece(&self, damaging: &Bucket) -> Result<Seen> {
        let key = format!("{}/damaged-piece", self.place);
        let id = self.start(&key).await?;
        let path = self.bucket.path(&key)?;
        let Some(line) = damaging.parts.multipart.as_deref() else {
            return Err(StoreError::Bug("a damaging line without uploads in pieces".to_owned()));
        };
        let bytes = Bytes::from_static(b"intact");
        let refused = damaging
            .refused_as_damaged(&key, || async {
                let put = line.put_part(&path, &id, 0, bytes.clone().into());
                put.await.map(|_| ()).map_err(|e| Failure::new(&e))
            })
            .await;
        self.abort(&key, &id).await?;
        Ok(if refused? { ok("a piece damaged on its way is refused") } else { unprotected("a piece") })
    }

    async fn start(&self, key: &str) -> Result<MultipartId> {
        let path = self.bucket.path(key)?;
        let puts = &self.bucket.stats().requests_put;
        self.bucket
            .repeat("starting the upload of", key, puts, 0, || async {
                self.multipart.create_multipart(&path).await.map_err(|e| Failure::new(&e))
            })
            .await
    }

    async fn send(
        &self,
        bucket: &Bucket,
        key: &str,
        id: &MultipartId,
        index: usize,
        bytes: &Bytes,
    ) -> Result<PartId> {
        let path = bucket.path(key)?;
        bucket
            .repeat("uploading a piece of", key, &bucket.stats().requests_put, bytes.len() as u64, || async {
                let put = self.multipart.put_part(&path, id, index, bytes.clone().into());
                put.await.map_err(|e| Failure::new(&e))
            })
            .await
    }

    async fn complete(&self, key: &str, id: &MultipartId, pieces: Vec<PartId>) -> Result<()> {
        let path = self.bucket.path(key)?;
        let puts = &self.bucket.stats().requests_put;
        self.bucket
            .repeat("completing the upload of", key, puts, PIECE_BYTES as u64, || async {
                let complete = self.multipart.complete_multipart(&path, id, pieces.clone());
                complete.await.map(|_| ()).map_err(|e| Failure::new(&e))
            })
            .await
    }

    async fn abort(&self, key: &str, id: &MultipartId) -> Result<()> {
        let path = self.bucket.path(key)?;
        let deletes = &self.bucket.stats().requests_delete;
        self.bucket
            .repeat("aborting the upload of", key, deletes, 0, || async {
                self.multipart.abort_multipart(&path, id).await.map_err(|e| Failure::new(&e))
            })
            .await
    }

    /// Whether the store lists the upload `id` among the unfinished uploads whose keys begin with `prefix`.
    async fn lists_upload(&self, prefix: &str, id: &MultipartId) -> Result<bool> {
        let full = self.bucket.path(prefix)?;
        let encoded = full.as_ref().replace('/', "%2F").replace('=', "%3D");
        let query = format!("prefix={encoded}&uploads=");
        let answer = self.direct(Method::GET, "", &query, HeaderMap::new(), Bytes::new()).await?;
        Ok(answer.status == StatusCode::OK && answer.text.contains(&format!("<UploadId>{id}</UploadId>")))
    }

    /// Sends one request of a kind that the crate `object_store` cannot make. Repeats it while no answer
    /// comes or the answer is "slow down".
    async fn direct(
        &self,
        method: Method,
        key: &str,
        query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer> {
        let Some(direct) = &self.bucket.parts.direct else {
            return Err(StoreError::Bug("this bucket speaks no S3".to_owned()));
        };
        let path = if key.is_empty() { String::new() } else { self.bucket.path(key)?.to_string() };
        let counter = match method {
            Method::GET => &self.bucket.stats().requests_list,
            _ => &self.bucket.stats().requests_put,
        };
        self.bucket
            .repeat("examining", key, counter, 0, || async {
                direct.send(method.clone(), &path, query, headers.clone(), body.clone()).await
            })
            .await
    }
}

/// Checks that the store refuses an object, uploaded in one PUT, that was damaged on its way.
async fn damaged_whole(damaging: &Bucket, place: &str) -> Result<Seen> {
    Ok(match damaging.refuses_damage(&format!("{place}/damaged")).await? {
        true => ok("an upload damaged on its way is refused"),
        false => unprotected("an upload"),
    })
}

fn unprotected(what: &str) -> Seen {
    let text = format!(
        "{what} damaged on its way is accepted: only a later read finds the damage. Use https, a network and memory that \
         check themselves, and atollctl verify --deep now and then"
    );
    (Verdict::Warning, text)
}
