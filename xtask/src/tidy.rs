//! The project's rules about itself, as ordinary tests: arrows between crates, licences, sizes of
//! files, words, and documents that must be up to date.

mod arrows;
mod licenses;
mod text;
