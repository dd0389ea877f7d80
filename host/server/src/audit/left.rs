//! Notes for the audit that commands leave in a data directory that they have opened themselves, such as `host backup`.
//! The host takes them within a second, or when it starts next.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host_dispatch::Dispatch;
use host_engine::audit::{AddNote, DONE, Note, cut};
use host_runtime::owner::Owner;
use host_runtime::{folder, ids};
use serde::{Deserialize, Serialize};

/// The folder in the data directory.
const FOLDER: &str = "notes";

/// What the name of a file ends in once it is written.
const WHOLE: &str = "json";

/// How many notes are taken at a time, and how long each may be, in bytes.
const NOTES_MAX: usize = 100;
const BYTES_MAX: u64 = 8 << 10;

/// What a command says of itself. Who it was is the owner of the file.
#[derive(Debug, Serialize, Deserialize)]
struct CommandNote {
    verb: String,
    object: String,
}

/// Leaves a note that a command has done something to a data directory. The host's user owns the folder, because the host
/// removes the notes; a note is of the user who ran the command.
pub fn leave(data: &Path, verb: &str, object: &str) -> io::Result<()> {
    let owner = Owner::find(data)?;
    let notes = owner
        .act(|| folder::open(data).and_then(|data| folder::enter_or_make(&data, FOLDER.as_ref())))
        .flatten()?;
    let [verb, object] = [verb, object].map(|text| cut(text.to_owned()));
    let name = format!("{}.{WHOLE}", ids::unique());
    let left = serde_json::to_vec(&CommandNote { verb, object })?;
    folder::publish(&notes, name.as_ref(), &left)
}

/// Records the notes that were left, oldest first, and removes each once it is recorded.
pub(super) async fn take(data: &Path, dispatch: &Dispatch) {
    for path in waiting(&data.join(FOLDER)) {
        match read(&path) {
            Ok(note) => {
                let (note, outcome) = (Box::new(note), DONE.to_owned());
                let recorded = dispatch.submit(AddNote { note, outcome });
                if recorded.await.is_err() {
                    return;
                }
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "not a note for the audit; removing it");
            }
        }
        if let Err(error) = fs::remove_file(&path) {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot remove a note that is in the audit");
            return;
        }
    }
}

fn waiting(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_note = |path: &PathBuf| path.extension().is_some_and(|it| it == WHOLE);
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_note).collect();
    all.sort_by_cached_key(|path| fs::metadata(path).and_then(|it| it.modified()).ok());
    all.truncate(NOTES_MAX);
    all
}

fn read(path: &Path) -> io::Result<Note> {
    let file = fs::File::open(path)?;
    let owner = file.metadata()?.uid();
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text)?;
    let left: CommandNote = serde_json::from_slice(&text)?;
    Ok(Note {
        principal: format!("uid:{owner}"),
        ..Note::new(&cut(left.verb), left.object)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn a_note_of_root_is_for_the_owner_of_the_data_directory() {
        if !geteuid().is_root() {
            return;
        }
        let data = tempfile::TempDir::new().unwrap();
        chown(data.path(), Some(65_534), Some(65_534)).unwrap();
        leave(data.path(), "backup", "data to a").unwrap();
        let folder = data.path().join(FOLDER);
        let found = fs::metadata(&folder).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (65_534, 0o700));
        let note = fs::metadata(&waiting(&folder)[0]).unwrap();
        assert_eq!((note.uid(), note.mode() & 0o777), (0, 0o644));
    }

    #[test]
    fn a_note_is_read_as_it_was_left() {
        let data = tempfile::TempDir::new().unwrap();
        leave(data.path(), "backup", "data to a").unwrap();
        leave(data.path(), "backup", "data to b").unwrap();
        let paths = waiting(&data.path().join(FOLDER));
        let notes: Vec<Note> = paths.iter().map(|path| read(path).unwrap()).collect();
        let objects: Vec<_> = notes.iter().map(|note| note.object.as_str()).collect();
        assert_eq!(objects, ["data to a", "data to b"]);
        let own = fs::metadata(data.path()).unwrap().uid();
        assert_eq!(notes[0].principal, format!("uid:{own}"));
        fs::write(&paths[0], "{").unwrap();
        read(&paths[0]).unwrap_err();
    }
}
