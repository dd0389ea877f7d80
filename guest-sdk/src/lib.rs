//! Write job handlers for `host` in Rust.
//!
//! ```
//! use guest_sdk::{Ctx, Error, export_handlers, handler};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Params {
//!     numbers: Vec<i64>,
//! }
//!
//! #[derive(Serialize)]
//! struct Total {
//!     total: i64,
//! }
//!
//! /// Adds numbers.
//! #[handler]
//! fn sum(ctx: &Ctx, params: Params) -> Result<Total, Error> {
//!     ctx.check_cancelled()?;
//!     let total = params.numbers.iter().sum();
//!     Ok(Total { total })
//! }
//!
//! export_handlers!(sum);
//! # fn main() {}
//! ```
//!
//! Build the crate as a `cdylib` with `cargo build --release --target wasm32-wasip2`, and deploy the
//! component with `host deploy`. On other targets the exports are left out and [`MockHost`] takes the
//! place of the host, so that you can test handlers with `cargo test`.

#![warn(missing_docs)]

extern crate self as guest_sdk;

/// The examples of the README, compiled and run as tests.
#[cfg(all(doctest, feature = "schema"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod artifacts;
mod ctx;
mod database;
mod error;
#[doc(hidden)]
pub mod export;
mod http;
mod limits;
mod log;
#[cfg(not(target_family = "wasm"))]
mod mock;
mod mock_files;
mod redirects;
#[cfg(not(target_family = "wasm"))]
mod replay;
mod request;
mod services;
mod sql;
mod state;
mod steps;
mod store;

pub use artifacts::{ArtifactReader, ArtifactWriter, Artifacts};
pub use ctx::{Ctx, Job};
pub use database::{Sql, Transaction};
pub use error::{Category, Error};
pub use host_guest_sdk_macros::handler;
pub use http::{Http, RequestBuilder};
pub use log::LogFields;
#[cfg(not(target_family = "wasm"))]
pub use mock::{Line, MockHost};
pub use request::{HttpError, HttpErrorKind, HttpRequest, HttpResponse};
#[cfg(feature = "schema")]
pub use schemars;
pub use services::Level;
pub use sql::{Rows, SqlError, SqlErrorKind};
pub use state::State;
pub use steps::Cursor;
pub use store::{DependsOn, NewJob, StoreError, StoreErrorKind, When};

/// The generated bindings of `host:jobs@1.2.0`.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::pedantic,
        reason = "generated"
    )]
    wit_bindgen::generate!({
        path: "wit/host-jobs-1.2.0",
        world: "job",
        pub_export_macro: true,
        export_macro_name: "export_job",
        default_bindings_module: "::guest_sdk::bindings",
        runtime_path: "::guest_sdk::wit_bindgen_rt",
    });
}

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub use wit_bindgen::rt as wit_bindgen_rt;
