//! Lists the unfinished multipart uploads of a bucket by S3's ListMultipartUploads, which the crate
//! `object_store` lacks. Each page is one signed GET.

use crate::requests::bucket::Attempt;
use crate::requests::s3::direct::Direct;
use crate::requests::unfinished::ListUploads;
use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;
use object_store::MultipartId;
use std::sync::Arc;

/// Lists the unfinished uploads of one S3 bucket.
pub(crate) struct S3Uploads {
    pub(crate) direct: Arc<Direct>,
}

/// The key and the upload id after which the next page begins.
type Marker = (String, String);

#[async_trait]
impl ListUploads for S3Uploads {
    async fn list_uploads(&self, prefix: &str) -> Attempt<Vec<(String, MultipartId)>> {
        let mut found = Vec::new();
        let mut marker: Option<Marker> = None;
        loop {
            let page = self.page(prefix, marker.as_ref()).await?;
            found.extend(uploads_in(&page));
            match next_page(&page) {
                Some(next) if marker.as_ref() != Some(&next) => marker = Some(next),
                _ => return Ok(found),
            }
        }
    }
}

impl S3Uploads {
    async fn page(&self, prefix: &str, marker: Option<&Marker>) -> Attempt<String> {
        let mut query = format!("uploads=&prefix={}", encoded(prefix));
        if let Some((key, id)) = marker {
            query.push_str(&format!("&key-marker={}&upload-id-marker={}", encoded(key), encoded(id)));
        }
        let answer = self.direct.send(Method::GET, "", &query, HeaderMap::new(), Bytes::new()).await?;
        if answer.status.is_success() {
            return Ok(answer.text);
        }
        Err(answer.refusal())
    }
}

fn uploads_in(page: &str) -> Vec<(String, MultipartId)> {
    let upload = |part: &str| Some((text_of(part, "Key")?, text_of(part, "UploadId")?));
    page.split("<Upload>").skip(1).filter_map(upload).collect()
}

fn next_page(page: &str) -> Option<Marker> {
    let is_truncated = text_of(page, "IsTruncated")? == "true";
    let marker = (text_of(page, "NextKeyMarker")?, text_of(page, "NextUploadIdMarker")?);
    is_truncated.then_some(marker)
}

/// The text in the first XML element `tag`. None if there is no such element. Works for the elements that are
/// read from S3's answers: these have no attributes or comments.
pub(crate) fn text_of(xml: &str, tag: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
    let (text, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(plain(text))
}

/// The text of an XML element, with the signs that its codes stand for.
pub(crate) fn plain(text: &str) -> String {
    let codes =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'")];
    let text = codes.iter().fold(text.to_owned(), |text, (code, sign)| text.replace(code, sign));
    text.replace("&amp;", "&")
}

/// Percent-encodes `text` for use as a value in a URL's query.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<?xml version=\"1.0\"?><ListMultipartUploadsResult><Bucket>b</Bucket><KeyMarker></KeyMarker>\
        <NextKeyMarker>p/sst/b</NextKeyMarker><NextUploadIdMarker>id&amp;2</NextUploadIdMarker><IsTruncated>true</IsTruncated>\
        <Upload><Key>p/sst/a</Key><UploadId>id1</UploadId><Initiated>2026</Initiated></Upload>\
        <Upload><UploadId>id&amp;2</UploadId><Key>p/sst/b</Key></Upload></ListMultipartUploadsResult>";

    #[test]
    fn a_page_gives_its_uploads_and_where_the_next_begins() {
        let pair = |key: &str, id: &str| (key.to_owned(), id.to_owned());
        assert_eq!(uploads_in(PAGE), [pair("p/sst/a", "id1"), pair("p/sst/b", "id&2")]);
        assert_eq!(next_page(PAGE), Some(pair("p/sst/b", "id&2")));
        assert_eq!(next_page(&PAGE.replace("true", "false")), None);
        assert_eq!(uploads_in("<html>no such thing</html>"), []);
        assert_eq!(next_page(""), None);
    }

    #[test]
    fn a_query_keeps_no_sign_with_a_meaning() {
        assert_eq!(encoded("a/b c&d=é~"), "a%2Fb%20c%26d%3D%C3%A9~");
    }
}
