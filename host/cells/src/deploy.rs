//! Checks a component before it is deployed, and shows what a new revision changes.

pub mod examine;
pub mod grants;
pub mod limits;
pub mod manifest;
pub mod trust;
