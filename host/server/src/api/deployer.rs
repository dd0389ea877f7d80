//! Deploying as the API shows it: which stable code each reason has.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::cell::Refusal;
use host_core::handler::Manifest;
use host_core::name::Name;

use super::ports::{DeployError, Deployed, Deployer};
use super::problem::Code;
use crate::deploy::{DeployError as Reason, Deployments};
use host_cells::compile::CompileError;
use host_cells::examine::Flaw;

impl Deployer for Deployments {
    fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        bytes: Vec<u8>,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.deploy(name, manifest, bytes)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }

    fn rollback(&self, name: Name, revision: u32) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.rollback(name, revision)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }

    fn remove(&self, name: Name) -> BoxFuture<'_, Result<(), DeployError>> {
        self.remove(name)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }
}

impl From<Reason> for DeployError {
    fn from(reason: Reason) -> Self {
        let code = match &reason {
            Reason::Flaw(flaw) => flawed(flaw),
            Reason::Store(_) => Code::StoreBroken,
            Reason::Submit(error) => return error.clone().into(),
        };
        Self::new(code, reason.to_string())
    }
}

fn flawed(flaw: &Flaw) -> Code {
    match flaw {
        Flaw::OtherName { .. } | Flaw::Manifest(_) => Code::ManifestInvalid,
        Flaw::TooLarge { .. } => Code::ComponentTooLarge,
        Flaw::Compile(CompileError::Refused(refusal)) => refused(refusal),
        Flaw::Compile(CompileError::Broken { .. }) => Code::CompileFailed,
        Flaw::Compile(CompileError::Cache { .. }) => Code::StoreBroken,
        Flaw::Describe(_) | Flaw::Offer(_) => Code::DescribeFailed,
        Flaw::Schema { .. } => Code::SchemaInvalid,
        Flaw::GrantMissing(_) => Code::GrantMissing,
    }
}

fn refused(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::NotAComponent | Refusal::Precompiled | Refusal::Invalid { .. } => {
            Code::ComponentInvalid
        }
        Refusal::ForbiddenImport { .. } => Code::ComponentForbiddenImport,
        Refusal::WrongWorld { .. } => Code::ComponentWrongWorld,
        Refusal::TooLarge { .. } => Code::ComponentTooLarge,
        Refusal::OutOfLimits { .. } => Code::CompileFailed,
    }
}
