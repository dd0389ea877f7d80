//! Service accounts of Google Cloud: their key signs an assertion, for which the token endpoint gives a token (RFC 7523).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_core::time::Time;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

/// How long an assertion is valid, in seconds.
const VALID_SECONDS: i64 = 3_600;

/// The account and its key. There is no `Debug`, because it would show the key.
pub(super) struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    key: PrivateKeyDer<'static>,
}

impl ServiceAccount {
    /// Reads a key's file. The error says what is wrong, without any part of the file.
    pub(super) fn parse(file: &str) -> Result<Self, String> {
        let flaw = |what| format!("the secret of service_account {what}");
        let document: Value =
            serde_json::from_str(file).map_err(|_| flaw("is not the JSON file of a key"))?;
        let text = |key: &str| document[key].as_str();
        let email = text("client_email").ok_or_else(|| flaw("has no client_email"))?;
        let pem = text("private_key").ok_or_else(|| flaw("has no private_key"))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        Ok(Self {
            email: email.to_owned(),
            key_id: text("private_key_id").map(str::to_owned),
            key: key.map_err(|_| flaw("has a private_key that is not in PEM"))?,
        })
    }

    /// Returns an assertion for the token endpoint as of `at`, signed by RS256.
    pub(super) fn assertion(
        &self,
        token_url: &str,
        scope: Option<&str>,
        target_audience: Option<&str>,
        at: Time,
    ) -> Result<String, String> {
        let now = at.0.div_euclid(1_000);
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.key_id });
        let mut claims = Map::new();
        claims.insert("iss".to_owned(), json!(self.email));
        claims.insert("aud".to_owned(), json!(token_url));
        claims.insert("iat".to_owned(), json!(now));
        claims.insert("exp".to_owned(), json!(now + VALID_SECONDS));
        let texts = [("scope", scope), ("target_audience", target_audience)];
        claims.extend(
            texts
                .into_iter()
                .filter_map(|(key, it)| Some((key.to_owned(), json!(it?)))),
        );
        let encode = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
        let text = format!("{}.{}", encode(&header), encode(&Value::Object(claims)));
        let key = any_supported_type(&self.key).ok();
        let signer = key.and_then(|key| key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]));
        let signature = signer
            .and_then(|it| it.sign(text.as_bytes()).ok())
            .ok_or("the secret of service_account has a private_key that is not RSA")?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
