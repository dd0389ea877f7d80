//! Deploying as the API shows it: which stable code each reason has.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_cells::compile::CompileError;
use host_cells::deploy::examine::{Component, Flaw};
use host_core::cell::CompileFlaw;
use host_core::name::Name;
use host_engine::audit::Note;
use host_engine::component::Manifest;
use host_http::problem::Kind;

use super::ports::{Consent, DeployError, Deployed, DeployedBy, Deployer};
use super::problem::kinds;
use crate::deploy::{DeployError as Reason, Deployments};

impl Deployer for Deployments {
    fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        consent: Consent,
        by: DeployedBy,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.deploy(name, manifest, component, consent, by)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }

    fn rollback(
        &self,
        name: Name,
        revision: u32,
        consent: Consent,
        note: Note,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.rollback(name, revision, consent, note)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }

    fn sync(&self) -> BoxFuture<'_, bool> {
        self.sync().boxed()
    }

    fn remove(&self, name: Name, note: Note) -> BoxFuture<'_, Result<(), DeployError>> {
        self.remove(name, note)
            .map(|result| result.map_err(DeployError::from))
            .boxed()
    }
}

impl From<Reason> for DeployError {
    fn from(reason: Reason) -> Self {
        let kind = match &reason {
            Reason::Flaw(flaw) => flawed(flaw),
            Reason::NewGrants(_) => &kinds::GRANTS_NOT_ACCEPTED,
            Reason::SecondPerson(_) => &kinds::SECOND_PERSON_NEEDED,
            Reason::UnfitJobs(_) => &kinds::WAITING_JOBS_UNFIT,
            Reason::Store(_) => &kinds::STORE_BROKEN,
            Reason::Submit(error) => return error.clone().into(),
        };
        Self::new(kind, reason.to_string())
    }
}

fn flawed(flaw: &Flaw) -> &'static Kind {
    match flaw {
        Flaw::OtherName { .. } | Flaw::Manifest(_) => &kinds::MANIFEST_INVALID,
        Flaw::TooLarge { .. } => &kinds::COMPONENT_TOO_LARGE,
        Flaw::Compile(CompileError::Refused(refusal)) => problem_kind(refusal),
        Flaw::Compile(CompileError::Broken { .. }) => &kinds::COMPILE_FAILED,
        Flaw::Compile(CompileError::CacheFull { .. }) => &kinds::CACHE_FULL,
        Flaw::Compile(CompileError::Cache { .. }) => &kinds::STORE_BROKEN,
        Flaw::Describe(_) | Flaw::Offer(_) => &kinds::DESCRIBE_FAILED,
        Flaw::Schema { .. } | Flaw::Schemas(_) => &kinds::SCHEMA_INVALID,
        Flaw::GrantMissing(_) => &kinds::GRANT_MISSING,
        Flaw::Untrusted(_) => &kinds::UNSIGNED_COMPONENT,
    }
}

fn problem_kind(refusal: &CompileFlaw) -> &'static Kind {
    match refusal {
        CompileFlaw::NotAComponent | CompileFlaw::Precompiled | CompileFlaw::Invalid { .. } => {
            &kinds::COMPONENT_INVALID
        }
        CompileFlaw::ForbiddenImport { .. } => &kinds::COMPONENT_FORBIDDEN_IMPORT,
        CompileFlaw::WrongWorld { .. } => &kinds::COMPONENT_WRONG_WORLD,
        CompileFlaw::TooLarge { .. } => &kinds::COMPONENT_TOO_LARGE,
        CompileFlaw::OutOfLimits { .. } => &kinds::COMPILE_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_has_a_code_of_its_own() {
        let kind = flawed(&Flaw::Compile(CompileError::CacheFull {
            folder: "cache".into(),
            bytes: 1,
            bytes_max: 1,
        }));
        assert_eq!((kind.status, kind.code), (507, "cache_full"));
    }
}
