//! What a directory may hold and still not be opened, through the front door.

use super::*;
use crate::base::PAGE_BYTES;
use crate::io::{Disk, IoChoice, RealDisk};
use crate::log::manifest::Manifest;

/// Pages are in no file yet, but rows and keys of larger pages may not fit smaller ones: the size
/// in the manifest counts, and who refuses it says both sizes and writes nothing.
#[test]
fn a_database_with_pages_of_another_size_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    Database::open(directory.path(), options(1)).unwrap().close().unwrap();
    let disk = RealDisk::open(directory.path(), IoChoice::Threads).unwrap();
    let manifest = Manifest::read(&disk).unwrap().unwrap();
    assert_eq!(manifest.page_bytes as usize, PAGE_BYTES);
    let number = Manifest::next_number(&disk).unwrap();
    let other = Manifest { number, page_bytes: 32_768, ..manifest };
    other.swap(&disk).unwrap();
    let names = |disk: &RealDisk| {
        let mut names = disk.list("").unwrap();
        names.sort();
        names
    };
    let before = names(&disk);
    let refused = [
        Database::open(directory.path(), options(1)).err(),
        Database::inspect(directory.path(), options(1), &mut |_| ()).err(),
    ];
    for refused in refused {
        let Some(Error::Unusable { detail }) = refused else { panic!("{refused:?}") };
        assert!(detail.contains("32768") && detail.contains(&PAGE_BYTES.to_string()), "{detail}");
    }
    assert_eq!(Manifest::read(&disk), Ok(Some(other)));
    assert_eq!(names(&disk), before);
}
