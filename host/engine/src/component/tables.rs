//! Components, their revisions and their bytes.

use host_core::name::Name;

use super::{Digest, Revision};
use crate::table::{Fields, Marked, Range, Record, Row, Select, Table, json, row, table};
use crate::{Reader, StoreError};

/// A component: the number of its current revision, or its last one as a negative number if it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: Name,
    pub current: i64,
}

impl Component {
    /// Returns the number of its current revision, unless it was removed.
    pub fn deployed(&self) -> Option<u32> {
        let current = u32::try_from(self.current).ok();
        current.filter(|number| *number > 0)
    }
}

/// Those with a current revision are marked.
pub static COMPONENTS: Table =
    table!("components", "component", "components", 1, [name: Text, current: Int])
        .marked(Marked::Positive(1));

impl Record for Component {
    const TABLE: &'static Table = &COMPONENTS;
    type Key<'k> = &'k Name;

    fn key(name: &Name) -> Row {
        row![name]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![&self.name, self.current])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&COMPONENTS, row);
        Ok(Self {
            name: fields.parse()?,
            current: fields.int()?,
        })
    }
}

/// `body` is the revision as JSON.
pub static REVISIONS: Table = table!(
    "revisions", "revision of component", "revisions", 2,
    [component: Text, revision: Int, digest: Bytes, body: Json]
);

impl Record for Revision {
    const TABLE: &'static Table = &REVISIONS;
    type Key<'k> = (&'k Name, u32);

    fn key((component, number): (&Name, u32)) -> Row {
        row![component, number]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let body = json(&REVISIONS, self)?;
        Ok(row![&self.component, self.revision, &self.digest.0, body])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&REVISIONS, row);
        fields.skip(3);
        fields.json()
    }
}

/// The bytes of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

pub static BLOBS: Table =
    table!("blobs", "component file", "component files", 1, [digest: Bytes, bytes: Bytes]);

impl Record for Blob {
    const TABLE: &'static Table = &BLOBS;
    type Key<'k> = Digest;

    fn key(digest: Digest) -> Row {
        row![&digest.0]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![&self.digest.0, &self.bytes[..]])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&BLOBS, row);
        Ok(Self {
            digest: Digest(fields.hash()?),
            bytes: fields.bytes()?,
        })
    }
}

/// Returns the keys of the current revisions of components.
pub(crate) fn current_keys(components: &[Component]) -> Vec<Row> {
    let current = components
        .iter()
        .filter_map(|it| Some((&it.name, it.deployed()?)));
    current.map(Revision::key).collect()
}

/// Reads the current revision of each component, by name.
pub fn read_deployed(reader: &dyn Reader) -> Result<Vec<Revision>, StoreError> {
    let components = reader.list(Range::all().marked())?;
    let one = |key: Row| Select {
        table: &REVISIONS,
        range: Range::of(key),
    };
    let selects: Vec<Select> = current_keys(&components).into_iter().map(one).collect();
    let rows = reader.select(&selects)?.into_iter().flatten();
    rows.map(Revision::from_row).collect()
}

/// Reads all revisions of one component, newest first, and the number of the current one.
pub fn read_revisions(
    reader: &dyn Reader,
    name: &Name,
) -> Result<(Vec<Revision>, u32), StoreError> {
    let [of_component, of_revisions] = [
        (&COMPONENTS, Range::of(Component::key(name))),
        (&REVISIONS, Range::of(Component::key(name)).backwards()),
    ]
    .map(|(table, range)| Select { table, range });
    let mut rows = reader.select(&[of_component, of_revisions])?.into_iter();
    let first = rows.next().and_then(|rows| rows.into_iter().next());
    let component = first.map(Component::from_row).transpose()?;
    let revisions = rows.flatten().map(Revision::from_row);
    let current = component.and_then(|it| it.deployed());
    Ok((
        revisions.collect::<Result<_, _>>()?,
        current.unwrap_or_default(),
    ))
}
