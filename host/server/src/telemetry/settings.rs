//! The OpenTelemetry variables that the export supports.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use host_cells::run::build::Environment;
use host_wire_kit::http_client::BaseUrl;
use opentelemetry_otlp::{ExporterBuildError, Protocol};
use thiserror::Error;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const COMPRESSION: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
];
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const SPAN_DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const METRIC_INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const FAILURE_MESSAGES: &str = "OTEL_HOST_FAILURE_MESSAGES";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// The supported encodings; the first is the default.
const PROTOCOLS: [(&str, Protocol); 2] = [
    ("http/protobuf", Protocol::HttpBinary),
    ("http/json", Protocol::HttpJson),
];

/// Where spans and metrics go.
#[derive(Clone)]
pub struct Settings {
    pub(super) endpoint: BaseUrl,
    pub(super) protocol: Protocol,
    /// These may have secrets.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) timeout: Duration,
    pub(super) span_delay: Duration,
    pub(super) metric_interval: Duration,
    pub(super) traces: bool,
    pub(super) metrics: bool,
    /// Whether spans of attempts have the messages of failures, which others see only with the verb `read_payload`.
    pub(super) failure_messages: bool,
    /// The resource of the spans and metrics.
    pub(super) resource: BTreeMap<String, String>,
}

/// An invalid variable. Never quotes the value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{variable} {wanted}")]
pub struct SettingsError {
    variable: &'static str,
    wanted: String,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({})", self.endpoint)
    }
}

impl SettingsError {
    /// Makes the error of variables that the exporter rejects.
    pub(super) fn exporter(error: &ExporterBuildError) -> Self {
        Self {
            variable: "OTEL_EXPORTER_OTLP_…",
            wanted: format!("cannot be used: {error}"),
        }
    }
}

impl Settings {
    /// Returns the URL of `path` at the collector.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.endpoint)
    }

    /// Returns the headers in the exporter's form. They may have secrets.
    pub(super) fn header_texts(&self) -> HashMap<String, String> {
        let headers = self.headers.iter().filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        headers.collect()
    }

    /// Reads the variables; `None` if no collector is named, or the export is switched off.
    pub fn read(environment: &Environment) -> Result<Option<Self>, SettingsError> {
        let get = |name: &str| environment.get(name).map(|text| text.trim());
        let get = |name: &str| get(name).filter(|text| !text.is_empty());
        let is_off = get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let Some(endpoint) = get(ENDPOINT).filter(|_| !is_off) else {
            return Ok(None);
        };
        let refused = |variable, wanted: &str| SettingsError {
            variable,
            wanted: wanted.to_owned(),
        };
        let endpoint = endpoint.parse::<BaseUrl>().map_err(|error| SettingsError {
            variable: ENDPOINT,
            wanted: format!("must name a collector by http:// or https:// and HOST:PORT: {error}"),
        })?;
        let protocol = get(PROTOCOL).unwrap_or(PROTOCOLS[0].0);
        let known = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
        let Some((_, protocol)) = known else {
            let wanted = "must be http/protobuf, http/json or unset: collectors accept these on their HTTP port, 4318";
            return Err(refused(PROTOCOL, wanted));
        };
        for variable in COMPRESSION {
            if get(variable).is_some_and(|how| how != "none") {
                return Err(refused(
                    variable,
                    "must be none or unset: nothing is compressed",
                ));
            }
        }
        let number = |variable, default| match get(variable).map(str::parse::<u64>) {
            None => Ok(Duration::from_millis(default)),
            Some(Ok(ms)) if (1..=86_400_000).contains(&ms) => Ok(Duration::from_millis(ms)),
            Some(_) => Err(refused(variable, "must be milliseconds, 1 to 86400000")),
        };
        let mut headers = Vec::new();
        for (name, value) in pairs(get(HEADERS).unwrap_or_default()) {
            let (name, value) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value));
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(refused(
                    HEADERS,
                    "must be NAME=VALUE,… with names of headers",
                ));
            };
            value.set_sensitive(true);
            headers.push((name, value));
        }
        let mut resource: BTreeMap<String, String> =
            pairs(get(RESOURCE).unwrap_or_default()).collect();
        let service = get(SERVICE_NAME).map(str::to_owned);
        let service = service.or_else(|| resource.get("service.name").cloned());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        resource.insert(
            "service.name".to_owned(),
            service.unwrap_or("host".to_owned()),
        );
        resource.insert("service.version".to_owned(), version);
        let is_on = |variable: &str| get(variable) != Some("none");
        Ok(Some(Self {
            endpoint,
            protocol: *protocol,
            headers,
            timeout: number(TIMEOUT, 10_000)?,
            span_delay: number(SPAN_DELAY, 5_000)?,
            metric_interval: number(METRIC_INTERVAL, 60_000)?,
            traces: is_on("OTEL_TRACES_EXPORTER"),
            metrics: is_on("OTEL_METRICS_EXPORTER"),
            failure_messages: match get(FAILURE_MESSAGES) {
                None | Some("false") => false,
                Some("true") => true,
                Some(_) => return Err(refused(FAILURE_MESSAGES, "must be true, false or unset")),
            },
            resource,
        }))
    }
}

/// Reads `NAME=VALUE,…`.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())))
}

/// Replaces `%20` and the like.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(Ok(byte)) = hex.map(|hex| u8::from_str_radix(hex, 16)) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
