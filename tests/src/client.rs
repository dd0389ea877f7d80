//! A client of the HTTP API that uses only the public contract.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::http::Method;

/// How long a deploy may take: compiling a large component takes minutes on a busy machine.
const DEPLOY_TIME_MAX: Duration = Duration::from_mins(5);

/// A client of one host. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: Option<String>,
}

/// A response: its status and JSON body (`null` if it has no body).
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Client {
    /// Makes a client for the host at `address`, such as `127.0.0.1:7700`.
    pub fn new(address: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(1)))
            .build();
        Self {
            agent: config.into(),
            base: format!("http://{address}"),
            token: None,
        }
    }

    /// Returns the URL of the host.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends this token with each request.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        let token = Some(token.to_owned());
        Self { token, ..self }
    }

    /// Sends a request, with a JSON body if one is given, and reads the response.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(Value::to_string);
        let (status, text) = self.call_text(method, path, body.as_deref())?;
        Ok(Answer {
            status,
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        })
    }

    /// Sends a request, with the text of a JSON body if one is given. Returns the response's status and text.
    pub fn call_text(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        let shown = format!("{method} {path}");
        let method: Method = method.parse().context("cannot parse the HTTP method")?;
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = match body {
            Some(body) => self.agent.run(
                request
                    .header("content-type", "application/json")
                    .body(body.to_owned())?,
            ),
            None => self.agent.run(request.body(())?),
        }
        .with_context(|| format!("cannot send {shown}"))?;
        let status = response.status().as_u16();
        let text = response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()
            .with_context(|| format!("cannot read the response to {shown}"))?;
        Ok((status, text))
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.call("GET", path, None)
    }

    /// Returns all items of a list, page by page.
    ///
    /// # Panics
    ///
    /// If the host does not answer with a page.
    pub fn items(&self, path: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        let separator = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self
                .get(&format!("{path}{separator}limit=1000{cursor}"))
                .expect("the host answers")
                .body;
            let items = page["items"].as_array().expect("a page has items");
            all.extend(items.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// Sends a POST request with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.call("POST", path, Some(body))
    }

    /// Enqueues one job and returns its id.
    ///
    /// # Panics
    ///
    /// If the host refuses the job.
    pub fn enqueue(&self, job: &Value) -> String {
        let answer = self.post("/api/v1/jobs", job).expect("the host answers");
        assert_eq!(
            answer.status, 201,
            "the host refused {job}: {}",
            answer.body
        );
        answer.body["id"]
            .as_str()
            .expect("a job has an id")
            .to_owned()
    }

    /// Returns one job.
    ///
    /// # Panics
    ///
    /// If the job does not exist.
    pub fn job(&self, id: &str) -> Value {
        let answer = self
            .get(&format!("/api/v1/jobs/{id}"))
            .expect("the host answers");
        assert_eq!(answer.status, 200, "cannot get job {id}: {}", answer.body);
        answer.body
    }

    /// Returns those of the newest 100 jobs that came from other orchestrators, with all their fields.
    ///
    /// # Panics
    ///
    /// If the host does not answer.
    pub fn foreign_jobs(&self) -> Vec<Value> {
        let answer = self.get("/api/v1/jobs?limit=100");
        let list = answer.expect("the host answers").body;
        let items = list["items"].as_array().expect("a list has items");
        items
            .iter()
            .filter(|job| job["wire"] != "http")
            .map(|job| self.job(job["id"].as_str().expect("a job has an id")))
            .collect()
    }

    /// Waits until a job has ended and returns it.
    ///
    /// # Panics
    ///
    /// If the job has not ended after three minutes.
    pub fn wait(&self, id: &str) -> Value {
        for _ in 0..9 {
            let answer = self
                .get(&format!("/api/v1/jobs/{id}/wait?timeout_seconds=20"))
                .expect("the host answers");
            assert_eq!(answer.status, 200, "cannot wait for {id}: {}", answer.body);
            let state = answer.body["state"].as_str().unwrap_or_default();
            if matches!(state, "completed" | "cancelled" | "discarded") {
                return answer.body;
            }
        }
        panic!("job {id} has not ended: {}", self.job(id));
    }

    /// Enqueues one job and waits for its end.
    pub fn run(&self, job: &Value) -> Value {
        self.wait(&self.enqueue(job))
    }

    /// Deploys a component under `name`, with an optional manifest.
    pub fn deploy(&self, name: &str, component: &[u8], manifest: Option<&str>) -> Result<Answer> {
        self.deploy_with(name, component, manifest, "")
    }

    /// Deploys a component and accepts all its grants.
    pub fn deploy_accepted(
        &self,
        name: &str,
        component: &[u8],
        manifest: Option<&str>,
    ) -> Result<Answer> {
        self.deploy_with(name, component, manifest, "?accept_grants=true")
    }

    /// Deploys a component although waiting jobs do not match a new schema.
    pub fn deploy_forced(&self, name: &str, component: &[u8]) -> Result<Answer> {
        self.deploy_with(name, component, None, "?force=true")
    }

    fn deploy_with(
        &self,
        name: &str,
        component: &[u8],
        manifest: Option<&str>,
        query: &str,
    ) -> Result<Answer> {
        const BOUNDARY: &str = "host-tests-7MA4YWxkTrZu0gW";
        let mut body = Vec::with_capacity(component.len() + 1024);
        let mut part = |name: &str, bytes: &[u8]| {
            let head = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; \
                 filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        };
        part("component", component);
        if let Some(manifest) = manifest {
            part("manifest", manifest.as_bytes());
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let mut request = self
            .agent
            .put(format!("{}/api/v1/components/{name}{query}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request
            .config()
            .timeout_global(Some(DEPLOY_TIME_MAX))
            .build()
            .header(
                "content-type",
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .send(&body[..])
            .with_context(|| format!("cannot deploy {name}"))?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string()?;
        Ok(Answer {
            status,
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        })
    }
}
