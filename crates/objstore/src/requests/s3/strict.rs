//! Checks the answer to a listing before the crate `object_store` parses it. For that crate every element of
//! the answer may be absent, so it takes the page of a proxy, or an error with status 200, for a listing
//! without objects.
//!
//! BUCKET-5: an answer counts as a listing only if its root element is `ListBucketResult`, if it repeats the
//!     prefix that was asked for, if it says whether it goes on, if it has as many keys as it says, and if
//!     all of them have the prefix. Any other answer is a failed attempt, which is repeated.

use crate::requests::s3::s3_uploads::{plain, text_of};

/// The part of a query by which a request for a listing is recognized.
const LISTING: &str = "list-type=2";

/// Whether `query`, from a request's URL, asks for a listing.
pub(crate) fn is_listing(query: &str) -> bool {
    query.split('&').any(|part| part == LISTING)
}

/// Checks `body`, the answer to the request for a listing with `query` (rule BUCKET-5). Errors: what is wrong
/// with it.
pub(crate) fn check(query: &str, body: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is no text".to_owned())?;
    let page = Outline::of(text).ok_or("it is no complete XML")?;
    if page.root != "ListBucketResult" {
        return Err(format!("its root element is <{}>", page.root));
    }
    let asked = value_in(query, "prefix").unwrap_or_default();
    let listed = page.value("Prefix").unwrap_or_default();
    let is_encoded = page.value("EncodingType").as_deref() == Some("url");
    let listed = if is_encoded { decoded(&listed) } else { listed };
    if listed != asked {
        return Err(format!("it is a listing of '{listed}' and not of '{asked}'"));
    }
    match page.value("IsTruncated").as_deref() {
        Some("false") => {}
        Some("true") if page.value("NextContinuationToken").is_some_and(|token| !token.is_empty()) => {}
        Some("true") => return Err("it goes on and does not say where".to_owned()),
        _ => return Err("it does not say whether it goes on".to_owned()),
    }
    let keys: Vec<String> = page.all("Contents").filter_map(|object| text_of(object, "Key")).collect();
    let count = page.all("Contents").count();
    if keys.len() != count || page.value("KeyCount").is_some_and(|told| told != count.to_string()) {
        return Err(format!("it has {} keys, and says that it has others", keys.len()));
    }
    let has_prefix = |key: &String| if is_encoded { decoded(key) } else { key.clone() }.starts_with(&asked);
    match keys.iter().find(|key| !has_prefix(key)) {
        Some(key) => Err(format!("it lists '{key}', which is not below '{asked}'")),
        None => Ok(()),
    }
}

/// The value of `name` in the query of a URL. None: the query does not have it.
fn value_in(query: &str, name: &str) -> Option<String> {
    let mut parts = query.split('&').filter_map(|part| part.split_once('='));
    parts.find(|(found, _)| *found == name).map(|(_, value)| decoded(&value.replace('+', " ")))
}

/// Decodes the percent-encoding of `text`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The root element of an XML text, and the elements directly inside of it.
struct Outline<'a> {
    root: &'a str,
    /// The name of each element and its content.
    inner: Vec<(&'a str, &'a str)>,
}

/// What stands between `<` and `>`.
enum Tag<'a> {
    Begin(&'a str),
    End(&'a str),
    /// An element without content.
    Empty(&'a str),
    /// A declaration, a comment, or text in CDATA.
    Aside,
}

impl<'a> Outline<'a> {
    /// None: `xml` is no XML text, or not a whole one.
    fn of(xml: &'a str) -> Option<Self> {
        let xml = xml.trim_start_matches('\u{feff}');
        let mut outline = Self { root: "", inner: Vec::new() };
        let mut open: Vec<&str> = Vec::new();
        let (mut at, mut content) = (0, 0);
        while let Some(start) = xml[at..].find('<').map(|found| at + found) {
            let is_outside = open.is_empty() && !xml[at..start].trim().is_empty();
            let (tag, end) = tag_at(xml, start).filter(|_| !is_outside)?;
            match (tag, open.len()) {
                (Tag::Aside, _) => {}
                (Tag::Begin(_) | Tag::Empty(_), 0) if !outline.root.is_empty() => return None,
                (Tag::Begin(name), depth) => {
                    match depth {
                        0 => outline.root = name,
                        1 => content = end,
                        _ => {}
                    }
                    open.push(name);
                }
                (Tag::Empty(name), 0) => outline.root = name,
                (Tag::Empty(name), 1) => outline.inner.push((name, "")),
                (Tag::Empty(_), _) => {}
                (Tag::End(name), depth) => {
                    open.pop().filter(|begun| *begun == name)?;
                    if depth == 2 {
                        outline.inner.push((name, &xml[content..start]));
                    }
                }
            }
            at = end;
        }
        let is_whole = open.is_empty() && !outline.root.is_empty() && xml[at..].trim().is_empty();
        is_whole.then_some(outline)
    }

    /// The contents of all elements `name`.
    fn all(&self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.inner.iter().filter(move |(found, _)| *found == name).map(|(_, content)| *content)
    }

    /// The text of the first element `name`.
    fn value(&self, name: &'a str) -> Option<String> {
        self.all(name).next().map(|content| plain(content.trim()))
    }
}

/// The tag that begins at `start`, and where the text behind it begins. None: it is none, or has no end.
fn tag_at(xml: &str, start: usize) -> Option<(Tag<'_>, usize)> {
    let rest = &xml[start..];
    for (begin, end) in [("<?", "?>"), ("<!--", "-->"), ("<![CDATA[", "]]>")] {
        if rest.starts_with(begin) {
            return Some((Tag::Aside, start + rest.find(end)? + end.len()));
        }
    }
    let inside = &rest[1..rest.find('>')?];
    let behind = start + inside.len() + 2;
    let name = |text: &'_ str| -> Option<usize> {
        let length = text.find(|sign: char| sign.is_whitespace() || sign == '/').unwrap_or(text.len());
        text.starts_with(|sign: char| sign.is_alphabetic()).then_some(length)
    };
    // Some servers write a namespace in front of each name.
    let local = |text: &'_ str| text.rfind(':').map_or(0, |colon| colon + 1);
    if let Some(ended) = inside.strip_prefix('/') {
        let whole = &ended[..name(ended)?];
        return Some((Tag::End(&whole[local(whole)..]), behind));
    }
    let whole = &inside[..name(inside)?];
    let local = &whole[local(whole)..];
    Some((if inside.ends_with('/') { Tag::Empty(local) } else { Tag::Begin(local) }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = "list-type=2&prefix=some+dir%2Froot%2F1%2F";
    const PAGE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <Name>b</Name><Prefix>some dir/root/1/</Prefix><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>\
        <IsTruncated>false</IsTruncated><Contents><Key>some dir/root/1/0</Key><Size>3</Size><Owner><ID/></Owner></Contents>\
        <Contents><Key>some dir/root/1/1</Key><Size>3</Size></Contents></ListBucketResult>\n";

    #[test]
    fn a_listing_is_accepted() {
        assert!(is_listing(QUERY) && !is_listing("uploads=&prefix=list-type=2x"));
        assert_eq!(check(QUERY, PAGE.as_bytes()), Ok(()));
        let empty = "<ListBucketResult><Name>b</Name><Prefix/><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(check("list-type=2", empty.as_bytes()), Ok(()));
        let named = empty.replace("<", "<s3:").replace("<s3:/", "</s3:");
        assert_eq!(check("list-type=2", named.as_bytes()), Ok(()));
        let more = PAGE.replace(
            "<IsTruncated>false<",
            "<NextContinuationToken>a&amp;b</NextContinuationToken><IsTruncated>true<",
        );
        assert_eq!(check(QUERY, more.as_bytes()), Ok(()));
        let encoded = PAGE
            .replace("some dir/", "some%20dir%2F")
            .replace("<Name>", "<EncodingType>url</EncodingType><Name>");
        assert_eq!(check(QUERY, encoded.as_bytes()), Ok(()));
    }

    #[test]
    fn an_answer_that_is_no_listing_is_no_empty_listing() {
        let wrong = [
            String::new(),
            "<Error><Code>InternalError</Code><Message>m</Message></Error>".to_owned(),
            "<!DOCTYPE html><html><body>Welcome</body></html>".to_owned(),
            "<html xmlns=\"http://www.w3.org/1999/xhtml\"><body><p/></body></html>".to_owned(),
            "{\"message\":\"down\"}".to_owned(),
            format!("<html></html>{PAGE}"),
            PAGE.replace("ListBucketResult", "ListMultipartUploadsResult"),
            PAGE.replace("<Prefix>some dir/root/1/", "<Prefix>some dir/root/2/"),
            PAGE.replace("<Prefix>some dir/root/1/</Prefix>", ""),
            PAGE.replace("<IsTruncated>false</IsTruncated>", ""),
            PAGE.replace("<IsTruncated>false", "<IsTruncated>true"),
            PAGE.replace("<KeyCount>2", "<KeyCount>3"),
            PAGE.replace("<Key>some dir/root/1/1", "<Key>other/root/1/1"),
            PAGE.replace("<Key>some dir/root/1/1</Key>", ""),
        ];
        for page in wrong {
            assert!(check(QUERY, page.as_bytes()).is_err(), "{page}");
        }
        for length in 0..PAGE.trim_end().len() {
            assert!(check(QUERY, &PAGE.as_bytes()[..length]).is_err(), "the first {length} bytes");
        }
    }
}
