//! Closes a file without the half second that hdfs-native sleeps.
//!
//! The NameNode refuses to complete a file until a DataNode has told it of the last
//! block, which takes it some milliseconds. hdfs-native then sleeps 500 ms and asks
//! again. Its future is dropped in that sleep, and called again: by then the block
//! is closed and only the question is repeated, which is what it would do itself.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::time::{Duration, Instant};

use hdfs_native::HdfsError;
use hdfs_native::file::FileWriter;

use crate::calls::timeout;
use crate::cluster::clusters;
use crate::failure::{Code, Failure};
use crate::location::Location;

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Close a file, up to a point in time.
pub fn close(deadline: Instant, location: &Location, file: &mut FileWriter) -> Result<(), Failure> {
    let mut pause = FIRST_PAUSE;
    while !try_close(deadline, location, file)? {
        if Instant::now() + pause >= deadline {
            return Err(Failure::new(
                Code::DeadlineExceeded,
                format!(
                    "{location}: no DataNode has confirmed its last block for {} s",
                    timeout().as_secs_f64()
                ),
            ));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

/// Ask the NameNode once to complete a file; false if it has not all of it yet.
pub fn try_close(
    deadline: Instant,
    location: &Location,
    file: &mut FileWriter,
) -> Result<bool, Failure> {
    clusters()?.transfer(deadline, location, close_or_refused(file))
}

thread_local! {
    /// Whether the NameNode's answer to `complete` was read in this poll, and was no.
    static REFUSED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Poll `close` until it is done (true), or until it has read a refusal and thus sleeps.
async fn close_or_refused(file: &mut FileWriter) -> Result<bool, HdfsError> {
    watch_answers();
    let mut closing = pin!(file.close());
    poll_fn(|context| {
        REFUSED.set(Some(false));
        let polled = closing.as_mut().poll(context);
        let refused = REFUSED.take() == Some(true);
        match polled {
            Poll::Ready(result) => Poll::Ready(result.map(|()| true)),
            Poll::Pending if refused => Poll::Ready(Ok(false)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// hdfs-native tells of each answer it reads in its log, in the thread that polls it.
struct AnswerLog;

impl log::Log for AnswerLog {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() == log::Level::Debug
            && metadata.target() == "hdfs_native::hdfs::protocol"
            && REFUSED.get().is_some()
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            if text.starts_with("complete response") && text.contains("result: false") {
                REFUSED.set(Some(true));
            }
        }
    }

    fn flush(&self) {}
}

fn watch_answers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The log is this library's own: nothing else shares its copy of the crate.
        if log::set_logger(&AnswerLog).is_ok() {
            log::set_max_level(log::LevelFilter::Debug);
        }
    });
}
