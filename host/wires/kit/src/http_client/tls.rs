//! TLS for requests: version 1.3, the certificate always checked against the system's authorities, or those
//! in the file `SSL_CERT_FILE`.

use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, ConfigBuilder, WantsVerifier};
use tokio::task::spawn_blocking;

use super::RequestError;

/// Adds TLS to a connector.
pub(super) async fn connector(
    http: HttpConnector,
) -> Result<HttpsConnector<HttpConnector>, RequestError> {
    let read = spawn_blocking(|| {
        let builder = builder()
            .map_err(|error| error.to_string())?
            .with_native_roots()
            .map_err(|error| error.to_string())?;
        Ok(builder.with_no_client_auth())
    });
    let config = read.await.unwrap_or_else(|error| Err(error.to_string())).map_err(|error| {
        RequestError::Connect(format!(
            "no certificate authorities can be read: {error}; install ca-certificates or name a file \
             with SSL_CERT_FILE"
        ))
    })?;
    Ok(over(http, config))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    let provider = rustls::crypto::ring::default_provider();
    ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])
}

/// Trusts these authorities.
#[cfg(test)]
pub(super) fn config(roots: rustls::RootCertStore) -> Result<ClientConfig, rustls::Error> {
    Ok(builder()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Adds TLS with this configuration.
pub(super) fn over(mut http: HttpConnector, config: ClientConfig) -> HttpsConnector<HttpConnector> {
    http.enforce_http(false);
    HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(http)
}
