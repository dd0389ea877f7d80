//! The container image: an OCI layout of one layer, in a tar file that Podman, Skopeo and Docker load. It has the program, the C
//! library and the certificate authorities of this machine, and runs as user 65532.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Release;
use super::files::{copy, empty, folder, permit, sha256, write};
use crate::cargo::{output, run};

/// The user and the group of the host.
const USER: &str = "65532";

/// Where the host keeps its data.
const DATA: &str = "var/lib/host";

const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A file of the layout, named after its content.
struct Blob {
    kind: &'static str,
    digest: String,
    bytes: u64,
}

impl Blob {
    fn describe(&self) -> Value {
        let digest = format!("sha256:{}", self.digest);
        json!({"mediaType": self.kind, "digest": digest, "size": self.bytes})
    }
}

impl Release {
    /// Makes the image.
    pub(super) fn image(&self) -> Result<()> {
        let layout = empty(&self.trees.join("image"))?;
        let blobs = layout.join("blobs/sha256");
        folder(&blobs)?;
        let layer = self.layer()?;
        let content = sha256(&layer)?;
        let compressed = layer.with_extension("tar.gz");
        let level = format!("-{}", self.level());
        let options = ["--no-name", "--keep", &level];
        run(Command::new("gzip").args(options).arg(&layer))?;
        let layer = add(
            &blobs,
            "application/vnd.oci.image.layer.v1.tar+gzip",
            &compressed,
        )?;
        let run_by = self.config(&content)?;
        let config = add_json(&blobs, "application/vnd.oci.image.config.v1+json", &run_by)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.describe(),
            "layers": [layer.describe()],
        });
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = add_json(&blobs, kind, &manifest)?;
        let mut described = manifest.describe();
        described["annotations"] = json!({"org.opencontainers.image.ref.name": self.version});
        let index = json!({"schemaVersion": 2, "manifests": [described]});
        write(&layout.join("index.json"), &index.to_string())?;
        let version = json!({"imageLayoutVersion": "1.0.0"});
        write(&layout.join("oci-layout"), &version.to_string())?;
        // For `docker load` before version 25.
        let place = |blob: &Blob| format!("blobs/sha256/{}", blob.digest);
        let tags = [format!("host:{}", self.version)];
        let docker =
            json!([{"Config": place(&config), "RepoTags": tags, "Layers": [place(&layer)]}]);
        write(&layout.join("manifest.json"), &docker.to_string())?;
        let name = format!("host-{}-image-{}.tar", self.version, self.architecture);
        run(self
            .tar("--create", &self.folder.join(name))
            .args(["--owner=0", "--group=0", "--directory"])
            .arg(&layout)
            .args(["blobs", "index.json", "manifest.json", "oci-layout"]))
    }

    /// Makes the files of the image and an archive of them.
    fn layer(&self) -> Result<PathBuf> {
        let files = empty(&self.trees.join("layer"))?;
        copy(&self.program, &files.join("usr/bin/host"), 0o755)?;
        let authorities = files.join(AUTHORITIES.trim_start_matches('/'));
        copy(Path::new(AUTHORITIES), &authorities, 0o644)
            .context("install the package ca-certificates")?;
        let linked = output(Command::new("ldd").arg(&self.program))?;
        let libraries = linked
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        for library in libraries {
            let to = files.join(library.trim_start_matches('/'));
            copy(Path::new(library), &to, 0o755)?;
        }
        folder(&files.join(DATA))?;
        permit(&files.join(DATA), 0o700)?;
        let layer = self.trees.join("layer.tar");
        let all: Vec<String> = super::files::names(&files)?;
        run(self
            .tar("--create", &layer)
            .args(["--owner=0", "--group=0"])
            .arg(format!("--exclude={DATA}"))
            .arg("--directory")
            .arg(&files)
            .args(all))?;
        let owner = [format!("--owner={USER}"), format!("--group={USER}")];
        run(self
            .tar("--append", &layer)
            .args(owner)
            .arg("--directory")
            .arg(&files)
            .arg(DATA))?;
        Ok(layer)
    }

    /// Returns how the image is run.
    fn config(&self, layer: &str) -> Result<Value> {
        let at = format!("--date=@{}", self.epoch);
        let printed = output(Command::new("date").args(["--utc", &at, "+%Y-%m-%dT%H:%M:%SZ"]))?;
        let created = printed.trim();
        Ok(json!({
            "created": created,
            "architecture": self.architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "ExposedPorts": {"7700/tcp": {}},
                "Env": [format!("HOST_DATA=/{DATA}")],
                "Entrypoint": ["/usr/bin/host"],
                "Cmd": ["serve", "--log-format", "json"],
                "Volumes": {format!("/{DATA}"): {}},
                "WorkingDir": "/",
                "StopSignal": "SIGTERM",
                "Labels": {"org.opencontainers.image.version": self.version},
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        }))
    }
}

/// Moves a file among the blobs.
fn add(blobs: &Path, kind: &'static str, file: &Path) -> Result<Blob> {
    let digest = sha256(file)?;
    let to = blobs.join(&digest);
    std::fs::rename(file, &to).with_context(|| format!("cannot move {}", file.display()))?;
    let bytes = to.metadata().context("cannot read a blob")?.len();
    Ok(Blob {
        kind,
        digest,
        bytes,
    })
}

fn add_json(blobs: &Path, kind: &'static str, document: &Value) -> Result<Blob> {
    let file = blobs.join("new");
    write(&file, &document.to_string())?;
    add(blobs, kind, &file)
}
