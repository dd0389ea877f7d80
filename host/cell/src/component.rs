//! The compiled components of a cell. Each is mapped and linked once, and instantiated for each run. The host
//! passes their files, already open.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::rc::Rc;

use host_core::cell::ComponentKey;
use sha2::{Digest as _, Sha256};
use wasmtime::component::{Component, Linker};
use wasmtime::error::Context as _;
use wasmtime::{Engine, Error, Result, bail, format_err};

use crate::bindings::JobPre;
use crate::context::Guest;
use crate::linker::{link, stub};
use host_confine::opened;

/// How much of a compiled file is read at a time to hash it, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// The components loaded into this cell.
pub(crate) struct Components {
    linker: Linker<Guest>,
    loaded: HashMap<ComponentKey, Result<Rc<JobPre<Guest>>, String>>,
}

impl Components {
    pub(crate) fn new(engine: &Engine) -> Result<Self> {
        Ok(Self {
            linker: link(engine)?,
            loaded: HashMap::new(),
        })
    }

    /// Maps a compiled file after checking its digest. If this fails, each run that needs the component
    /// fails with the same error. `path` is for messages.
    pub(crate) fn load(
        &mut self,
        key: ComponentKey,
        path: &Path,
        file: Result<File, String>,
        sha256: [u8; 32],
    ) -> Result<()> {
        let loaded = self.map(path, file, sha256);
        let result = match &loaded {
            Ok(_) => Ok(()),
            Err(error) => Err(format_err!("{error:#}")),
        };
        let loaded = loaded.map(Rc::new).map_err(|error| format!("{error:#}"));
        self.loaded.insert(key, loaded);
        result
    }

    fn map(
        &self,
        path: &Path,
        file: Result<File, String>,
        sha256: [u8; 32],
    ) -> Result<JobPre<Guest>> {
        // Those who see the failure need not know the folders of the machine.
        let name = path.file_name().unwrap_or_default().display();
        let operation = || format!("load the compiled component {name}");
        let mut file = file.map_err(Error::msg).with_context(operation)?;
        if digest(&mut file).with_context(operation)? != sha256 {
            bail!(
                "{}: the file has changed since it was compiled; delete it, and the host compiles the \
                 component again",
                operation()
            );
        }
        // SAFETY: the digest shows that our compile child wrote this file, and only the host's user can
        // write to it. Compiled code is never accepted from outside.
        let mapped = opened::as_file(file, |path| unsafe {
            Component::deserialize_file(self.linker.engine(), path)
        });
        let component = mapped.with_context(operation)?;
        let mut linker = self.linker.clone();
        stub(&mut linker, &component)?;
        JobPre::new(linker.instantiate_pre(&component)?)
    }

    pub(crate) fn unload(&mut self, key: ComponentKey) {
        self.loaded.remove(&key);
    }

    /// Returns a loaded component. Errors continue a sentence that begins with "cannot".
    pub(crate) fn get(&self, key: ComponentKey) -> Result<Rc<JobPre<Guest>>> {
        match self.loaded.get(&key) {
            Some(Ok(component)) => Ok(Rc::clone(component)),
            Some(Err(message)) => bail!("{message}"),
            None => bail!("run component {}: it was not loaded into this cell", key.0),
        }
    }
}

fn digest(file: &mut File) -> io::Result<[u8; 32]> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finalize().into()),
            bytes => hasher.update(&chunk[..bytes]),
        }
    }
}
