//! Copying pages and log segments.
//!
//! Invariants: a page is copied to its own place of a file of the same name, and verified before;
//! what no checkpoint holds is not copied (files are sparse); segments are copied up to a position
//! that is durable, behind which their copies end. Files are durable when a function returns;
//! their names are when the folder was synced, which it was.

use super::Watch;
use crate::base::{Error, HomeId, LogPosition, PAGE_BYTES, Place, Result};
use crate::io::{Direct, Disk, FileRef, IoBuffer, OpenHow};
use crate::log::manifest::Manifest;
use crate::log::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_folder, segment_name, segments};
use crate::store::{self, PageStore, PinId, Run};

/// Bytes of one read and write.
const PIECE_BYTES: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopiedPages {
    /// Pages.
    pub pages: u64,
    /// Their bytes, and those of the files' headers.
    pub bytes: u64,
}

/// Copies the pages of a pinned checkpoint to `target`, which has none. Blocks. `Corrupt` names
/// file and page; `DiskFull`, `Io`, `Cancelled`.
pub fn copy_pages(
    store: &PageStore,
    (pin, database): (PinId, u128),
    target: &dyn Disk,
    watch: &Watch,
) -> Result<CopiedPages> {
    let mut copied = CopiedPages::default();
    watch.expect(store.pinned_count(pin) * PAGE_BYTES as u64);
    target.create_dir("pages")?;
    let mut buffer = IoBuffer::zeroed(PIECE_BYTES);
    let pages_max = (PIECE_BYTES / PAGE_BYTES) as u64;
    for home in (0..store.homes()).map(|home| HomeId(home as u16)) {
        let Some(mut run) = store.pinned_run(pin, home, 0, pages_max) else { continue };
        let file = new_page_file(target, database, home)?;
        copied.bytes += PAGE_BYTES as u64;
        loop {
            read_verified(store, run, &mut buffer)?;
            file.write_at(store::offset(run.first), &buffer)?;
            copied.pages += run.count;
            copied.bytes += buffer.len() as u64;
            watch.copied(buffer.len() as u64)?;
            let after = run.first.number() + run.count;
            match store.pinned_run(pin, home, after, pages_max) {
                Some(next) => run = next,
                None => break,
            }
        }
        file.sync()?;
    }
    target.sync_dir("pages")?;
    Ok(copied)
}

/// Makes the page file of a home, with its header. The name is not durable yet.
pub(super) fn new_page_file(target: &dyn Disk, database: u128, home: HomeId) -> Result<FileRef> {
    let file = target.open(&store::file_name(home), OpenHow::CreateNew, Direct::Yes)?;
    file.write_at(0, &store::header_page(database, home))?;
    Ok(file)
}

/// Whether there is nothing here: a hole.
pub(super) fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Reads a run of pages and verifies each. All that a checkpoint has was written before it was published, and is not
/// written again while it is pinned: so what cannot be verified is damaged.
fn read_verified(store: &PageStore, run: Run, buffer: &mut IoBuffer) -> Result<()> {
    let n = store.read_run(run, buffer)?;
    // What lies behind the file's end is no page, which verifying says.
    let whole = n / PAGE_BYTES * PAGE_BYTES;
    for at in 0..run.count {
        let place = Place::new(run.first.home(), run.first.number() + at);
        let from = (at as usize * PAGE_BYTES).min(whole);
        store::verify(place, &buffer[from..(from + PAGE_BYTES).min(whole)])?;
    }
    Ok(())
}

/// Copies what the running incarnation of `manifest` has in its logs from where they begin up to
/// `ends` to `target`. Blocks; answers bytes. `DiskFull`, `Io`, `Cancelled`.
pub fn copy_logs(
    source: &dyn Disk,
    manifest: &Manifest,
    ends: &[LogPosition],
    target: &dyn Disk,
    watch: &Watch,
) -> Result<u64> {
    let mut bytes = 0;
    target.create_dir("log")?;
    let current = manifest.current();
    for (span, (home, end)) in current.logs.iter().zip(ends.iter().enumerate()) {
        let home = HomeId(home as u16);
        let folder = segment_folder(home);
        target.create_dir(&folder)?;
        for header in segments(source, manifest, home)? {
            let is_of = header.incarnation == current.number && header.start >= span.start;
            if !is_of || header.start >= *end {
                continue;
            }
            let name = segment_name(home, header.number);
            let piece = SegmentPiece { header, bytes: header.bytes.min(end.0 - header.start.0) };
            bytes += copy_segment((source, &name), (target, &name), piece, watch)?;
        }
        target.sync_dir(&folder)?;
    }
    target.sync_dir("log")?;
    target.sync_dir("")?;
    Ok(bytes)
}

/// What of a segment is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPiece {
    /// What the copy's header says.
    pub header: SegmentHeader,
    /// Bytes from the segment's beginning on, in whole blocks.
    pub bytes: u64,
}

/// Copies one segment and makes it durable, not its name; answers bytes.
pub(super) fn copy_segment(
    (source, from): (&dyn Disk, &str),
    (target, to): (&dyn Disk, &str),
    piece: SegmentPiece,
    watch: &Watch,
) -> Result<u64> {
    watch.expect(piece.bytes);
    let input = source.open(from, OpenHow::Existing, Direct::Yes)?;
    let output = target.open(to, OpenHow::CreateNew, Direct::Yes)?;
    let mut buffer = IoBuffer::zeroed(PIECE_BYTES);
    let mut at = 0;
    while at < piece.bytes {
        let wanted = (piece.bytes - at).min(PIECE_BYTES as u64) as usize;
        buffer.set_len(wanted);
        let n = input.read_at(at, &mut buffer)?;
        if n < wanted {
            let detail = format!("\"{from}\": the file ends at {}", at + n as u64);
            return Err(Error::Corrupt { page: None, detail });
        }
        if at == 0 {
            buffer[..SEGMENT_HEADER_BYTES].fill(0);
            piece.header.encode(&mut buffer);
        }
        output.write_at(at, &buffer)?;
        at += wanted as u64;
        watch.copied(wanted as u64)?;
    }
    output.sync()?;
    Ok(piece.bytes)
}
