//! Asks servers about files before a statement reads them: whether they exist, their size, and whether ranges can be
//! read.

use futures_util::stream::{StreamExt, iter};
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore};
use rowmill_base::{Cancel, Result};

use super::failure::{Attempt, failed};
use super::file::{Examined, RemoteFile, WINDOW_BYTES};
use super::runtime::wait;
use super::store::RemoteObject;
use crate::location::FileLocation;

/// The files that are examined at the same time.
const AT_ONCE: usize = 16;

/// Examines the files over the network, several at a time. A file that a list has described costs no request, unless
/// its name says that its footer will be read.
pub(crate) fn examine(locations: &[FileLocation], cancel: &Cancel) -> Result<()> {
    let files: Vec<&RemoteFile> = locations
        .iter()
        .filter_map(|location| match location {
            FileLocation::Remote(file) => Some(&**file),
            FileLocation::Disk(_) => None,
        })
        .collect();
    let steps = files.iter().enumerate().filter_map(|(number, file)| Some((number, Step::of(file)?)));
    let steps: Vec<(usize, Step)> = steps.collect();
    if steps.is_empty() {
        return Ok(());
    }
    let answers = iter(steps.into_iter().map(|(number, step)| async move { (number, step.run().await) }));
    let answers = wait(cancel, answers.buffered(AT_ONCE).collect::<Vec<_>>())?;
    for (number, answer) in answers {
        let Answer { examined, at, bytes } = answer?;
        if at == 0 {
            files[number].keep_start(at, &bytes);
        }
        files[number].keep(at, bytes);
        // A file that was examined before keeps what was found then.
        let _ = files[number].examined.set(examined);
    }
    Ok(())
}

/// The first request for a file.
struct Step {
    object: RemoteObject,
    range: GetRange,
}

struct Answer {
    examined: Examined,
    /// Some bytes of the file, with their offset.
    at: u64,
    bytes: bytes::Bytes,
}

impl Step {
    fn of(file: &RemoteFile) -> Option<Step> {
        let object = file.object.clone();
        let has_footer = object.name.ends_with(".parquet") || object.name.ends_with(".pq");
        match file.bytes() {
            // A list knows the file. Its footer is read by many files at a time, which a reader cannot do later.
            Some(bytes) if has_footer && bytes > 0 => {
                let start = bytes.saturating_sub(WINDOW_BYTES);
                Some(Step { object, range: GetRange::Bounded(start..bytes) })
            }
            Some(_) => None,
            None => Some(Step { object, range: GetRange::Bounded(0..WINDOW_BYTES) }),
        }
    }

    async fn run(self) -> Result<Answer> {
        let Step { object, range } = self;
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        match object.store.get_opts(&object.path, options).await {
            Ok(result) => {
                let (facts, at) = (result.meta.clone(), result.range.start);
                let bytes = result.bytes().await.map_err(|error| failed(Attempt::Read, &object, &error))?;
                Ok(Answer { examined: Examined::Ranges(facts), at, bytes })
            }
            Err(error) if is_without_ranges(&error) => {
                Ok(Answer { examined: Examined::Whole, at: 0, bytes: bytes::Bytes::new() })
            }
            Err(error) => Err(failed(Attempt::Read, &object, &error)),
        }
    }
}

/// Whether the server has answered a request for a range in a way that says nothing against one for the whole file: it
/// knows no ranges, or the file is empty.
fn is_without_ranges(error: &StoreError) -> bool {
    let is_not_partial = |text: &str| {
        ["non-partial response", "status code: 416", "Content-Range", "CONTENT_RANGE"]
            .iter()
            .any(|part| text.contains(part))
    };
    match error {
        StoreError::NotSupported { .. } => true,
        error => {
            let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
            while let Some(error) = next {
                if is_not_partial(&error.to_string()) {
                    return true;
                }
                next = error.source();
            }
            false
        }
    }
}
