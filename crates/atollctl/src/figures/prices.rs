//! A price list, and the cost of a running server's requests according to it.

use objstore::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The example price list, which is no provider's.
const EXAMPLE: &str = include_str!("prices.json");

const GIB: f64 = (1_u64 << 30) as f64;
/// The seconds of a month of 30 days.
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// What a provider charges, in one currency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    pub(crate) currency: String,
    /// The price of one GiB (2^30 bytes) stored for a month.
    pub(crate) stored_gib_month: f64,
    pub(crate) put_per_1000: f64,
    pub(crate) list_per_1000: f64,
    pub(crate) get_per_1000: f64,
    pub(crate) head_per_1000: f64,
    pub(crate) delete_per_1000: f64,
    /// The price of one GiB that leaves the bucket.
    pub(crate) downloaded_gib: f64,
}

/// The requests of one kind that a server has sent, and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RequestCost {
    pub(crate) kind: &'static str,
    /// How many requests the server has sent since its start; for `downloaded GiB`, the number of GiB.
    pub(crate) count: f64,
    pub(crate) per_month: f64,
    pub(crate) money_per_month: f64,
}

impl Prices {
    /// Reads the price list in the file `path`. None: uses the example.
    ///
    /// Errors: `Invalid` when the file cannot be read or is no price list.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, StoreError> {
        let Some(path) = path else { return Self::parse(EXAMPLE, "the example") };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| StoreError::Invalid(format!("reading the price list {shown}: {error}")))?;
        Self::parse(&text, &shown)
    }

    fn parse(text: &str, shown: &str) -> Result<Self, StoreError> {
        let prices: Self = serde_json::from_str(text)
            .map_err(|error| StoreError::Invalid(format!("{shown} is no price list: {error}")))?;
        let all = [
            prices.stored_gib_month,
            prices.put_per_1000,
            prices.list_per_1000,
            prices.get_per_1000,
            prices.head_per_1000,
            prices.delete_per_1000,
            prices.downloaded_gib,
        ];
        match all.iter().all(|price| price.is_finite() && *price >= 0.0) {
            true => Ok(prices),
            false => Err(StoreError::Invalid(format!("{shown} has a price below zero"))),
        }
    }

    /// The cost of storing `bytes` for a month.
    pub(crate) fn stored(&self, bytes: u64) -> f64 {
        bytes as f64 / GIB * self.stored_gib_month
    }

    /// The monthly cost of a server's requests, if it sends them at the same rate as since its start.
    /// `status` is the output of SHOW GLOBAL STATUS: a name and a number in each line.
    ///
    /// Errors: `Invalid` when `Uptime` or a counter of requests is missing.
    pub(crate) fn requests(&self, status: &str) -> Result<Vec<RequestCost>, StoreError> {
        let values = values_of(status);
        let value = |name: &str| {
            let missing = || {
                StoreError::Invalid(format!(
                    "the status variables lack {name}: give the output of SHOW GLOBAL STATUS"
                ))
            };
            values.get(&name.to_lowercase()).copied().ok_or_else(missing)
        };
        let seconds = value("Uptime")?.max(1.0);
        let of = |kind, count: f64, price: f64| {
            let per_month = count / seconds * MONTH_SECONDS;
            RequestCost { kind, count, per_month, money_per_month: per_month * price }
        };
        Ok(vec![
            of("put", value("Atoll_requests_put")?, self.put_per_1000 / 1000.0),
            of("list", value("Atoll_requests_list")?, self.list_per_1000 / 1000.0),
            of("get", value("Atoll_requests_get")?, self.get_per_1000 / 1000.0),
            of("head", value("Atoll_requests_head")?, self.head_per_1000 / 1000.0),
            of("delete", value("Atoll_requests_delete")?, self.delete_per_1000 / 1000.0),
            of("downloaded GiB", value("Atoll_bytes_downloaded")? / GIB, self.downloaded_gib),
        ])
    }
}

/// Parses lines with a name and a number, also if they are a table with `|` between the columns. The names
/// become lower case.
fn values_of(status: &str) -> BTreeMap<String, f64> {
    let pair = |line: &str| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '|').filter(|word| !word.is_empty());
        Some((words.next()?.to_lowercase(), words.next()?.parse().ok()?))
    };
    status.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Uptime\t86400\nAtoll_requests_put\t1000\nAtoll_requests_list\t10\nAtoll_requests_get\t5000\n\
        Atoll_requests_head\t0\nAtoll_requests_delete\t7\nAtoll_bytes_downloaded\t1073741824\nAtoll_last_error\tnone\n";

    #[test]
    fn money_is_bytes_and_requests_times_the_price_and_month() {
        let prices = Prices::read(None).unwrap();
        assert_eq!(prices.stored(100 << 30), 2.0);
        let requests = prices.requests(STATUS).unwrap();
        assert_eq!((requests[0].kind, requests[0].per_month), ("put", 30_000.0));
        assert!((requests[0].money_per_month - 0.15).abs() < 1e-9);
        assert_eq!((requests[5].count, requests[5].per_month), (1.0, 30.0));
        let with_bars = STATUS.replace('\t', " | ").replace("Uptime", "| Uptime");
        assert_eq!(prices.requests(&with_bars).unwrap(), requests);
        assert!(prices.requests("Uptime 5").is_err());
    }

    #[test]
    fn what_is_no_price_list_is_refused() {
        assert!(Prices::read(Some(Path::new("/no/such/file"))).is_err());
        for wrong in ["", "{}", &EXAMPLE.replace("0.005", "-1"), &EXAMPLE.replace("currency", "money")] {
            assert!(Prices::parse(wrong, "it").is_err(), "{wrong}");
        }
    }
}
