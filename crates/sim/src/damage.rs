//! Bytes of a log that change behind everybody's back between two lives (rule 9.2): what was safe and is
//! gone is refused, and not taken for a tail that the crash tore.
//!
//! Invariants: an independent judge: it reads flush records as docs/format/log.md has them, and shares no code
//! with the kernel's scan. When it has judged, the disk is as it was.

use std::sync::Arc;

use atoll_kernel::api::Error;
use atoll_kernel::base::PAGE_BYTES;
use atoll_kernel::io::{Direct, Disk, OpenHow, Seeded, SimDisk};
use atoll_kernel::log::manifest::Manifest;
use atoll_kernel::log::{examine, summaries};

use crate::checker::Complaint;

/// Flushes begin at multiples of it.
const BLOCK: usize = 4096;

/// A flush where it belongs.
struct Flush {
    /// In its segment.
    offset: usize,
    /// Without the padding.
    bytes: usize,
    position: u64,
    /// How far it says that its log was durable.
    durable: u64,
}

impl Flush {
    fn end(&self) -> u64 {
        self.position + self.bytes.next_multiple_of(BLOCK) as u64
    }
}

/// A segment of the running incarnation.
struct Segment {
    name: String,
    bytes: Vec<u8>,
    flushes: Vec<Flush>,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|it| it.try_into().ok()).unwrap_or([0; N])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(word(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(word(bytes, at))
}

/// The flushes of a segment; none if it is not of this home and incarnation.
fn flushes(bytes: &[u8], (home, incarnation): (u16, u32)) -> Vec<Flush> {
    if word(bytes, 0) != *b"ATOLLSEG" || u32_at(bytes, 56) != incarnation {
        return Vec::new();
    }
    let start = u64_at(bytes, 24);
    let of = |offset: usize| {
        let block = &bytes[offset..];
        let position = start + offset as u64;
        let is_one = block[8] == 1
            && u16::from_le_bytes(word(block, 10)) == home
            && u32_at(block, 12) == incarnation
            && u64_at(block, 16) == position;
        let (bytes, durable) = (u32_at(block, 40) as usize, u64_at(block, 24));
        is_one.then_some(Flush { offset, bytes, position, durable })
    };
    (BLOCK..bytes.len().saturating_sub(BLOCK - 1)).step_by(BLOCK).filter_map(of).collect()
}

fn segments(disk: &dyn Disk, home: u16, incarnation: u32) -> Result<Vec<Segment>, Error> {
    let folder = format!("log/{home:04}");
    let mut all = Vec::new();
    for name in disk.list(&folder)?.into_iter().filter(|it| it.ends_with(".seg")) {
        let name = format!("{folder}/{name}");
        let file = disk.open(&name, OpenHow::Existing, Direct::No)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        let flushes = flushes(&bytes, (home, incarnation));
        if !flushes.is_empty() {
            all.push(Segment { name, bytes, flushes });
        }
    }
    Ok(all)
}

/// Flips a bit of a flush of some log, looks at what a start would make of it, and flips it back. Answers
/// what to count; none if there is no flush.
pub fn damage_a_log(
    disk: &SimDisk,
    random: &mut Seeded,
) -> Result<Option<&'static str>, Complaint> {
    let plain: Arc<dyn Disk> = Arc::new(disk.clone());
    let told = |error: Error| format!("before it was damaged: {error:?}");
    let Some(manifest) = Manifest::read(&*plain).map_err(told)? else { return Ok(None) };
    let home = random.below(u64::from(manifest.homes)) as u16;
    let incarnation = manifest.current();
    let all = segments(&*plain, home, incarnation.number).map_err(told)?;
    if all.is_empty() {
        return Ok(None);
    }
    let segment = &all[random.below(all.len() as u64) as usize];
    let flush = &segment.flushes[random.below(segment.flushes.len() as u64) as usize];
    let at = flush.offset + random.below(flush.bytes.min(PAGE_BYTES) as u64) as usize;
    let Some(byte) = segment.bytes.get(at).copied() else { return Ok(None) };

    let log = usize::from(home);
    let before = examine(&plain, manifest.clone()).map_err(told)?;
    let end = summaries(&plain, &manifest).map_err(told)?[log].end;
    let counts = flush.position >= incarnation.logs[log].start.0 && flush.position < end.0;
    let mut others = all.iter().flat_map(|it| &it.flushes);
    let is_safe = others.any(|it| it.position != flush.position && it.durable >= flush.end());

    let failed = |error: Error| format!("{} cannot be damaged: {error:?}", segment.name);
    disk.damage(&segment.name, at as u64, &[byte ^ 1 << random.below(8)]).map_err(failed)?;
    let after = examine(&plain, manifest);
    disk.damage(&segment.name, at as u64, &[byte]).map_err(failed)?;
    match after {
        Err(Error::Corrupt { detail, .. })
            if detail.contains(&segment.name) || detail.contains(&format!("home {home}")) =>
        {
            Ok(Some("damaged log refused"))
        }
        Err(error) => Err(format!("byte {at} of {} was damaged: {error:?}", segment.name)),
        Ok(_) if counts && is_safe => Err(format!(
            "byte {at} of {}, which was safe, was damaged, and nobody is told",
            segment.name
        )),
        Ok(after) if after.cuts == before.cuts => Ok(Some("damage of a log does not matter")),
        Ok(_) => Ok(Some("damaged end of a log taken for a torn one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_found_where_they_belong() {
        let mut bytes = vec![0; 4 * BLOCK];
        bytes[..8].copy_from_slice(b"ATOLLSEG");
        bytes[24..32].copy_from_slice(&81_920_u64.to_le_bytes());
        bytes[56..60].copy_from_slice(&3_u32.to_le_bytes());
        let mut put = |offset: usize, position: u64| {
            bytes[offset + 8] = 1;
            bytes[offset + 10] = 2;
            bytes[offset + 12] = 3;
            bytes[offset + 16..offset + 24].copy_from_slice(&position.to_le_bytes());
            bytes[offset + 24..offset + 32].copy_from_slice(&70_000_u64.to_le_bytes());
            bytes[offset + 40..offset + 44].copy_from_slice(&5000_u32.to_le_bytes());
        };
        put(BLOCK, 86_016);
        // Of an earlier use of the segment.
        put(3 * BLOCK, 12_288);
        let found = flushes(&bytes, (2, 3));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].offset, found[0].end(), found[0].durable), (BLOCK, 94_208, 70_000));
        assert!(flushes(&bytes, (1, 3)).is_empty() && flushes(&bytes, (2, 4)).is_empty());
    }
}
