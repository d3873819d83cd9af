//! Files that are written, from front to back.
//!
//! What was written up to `sync` is there for every reader, also when this process is
//! killed. HDFS could do that with a file that stays open, but the clients of
//! hdfs-native, TensorBoard's among them, see nothing of an open block. So `sync`
//! closes the file. From then on it is taken for a log that others read: what follows
//! is kept here until the next `sync`, which opens the file, appends and closes it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hdfs_native::HdfsError;
use hdfs_native::client::WriteOptions;
use hdfs_native::file::FileWriter;

use crate::cluster::{clusters, timeout};
use crate::failure::{Code, Failure};
use crate::location::Location;

/// TensorFlow writes a record in four small pieces.
const BUFFER: usize = 1 << 20;
/// What a log may keep here for its next `sync`.
const LOG_BUFFER: usize = 4 << 20;

pub struct Writer {
    location: Location,
    process: u32,
    /// Open from its creation to the first `sync`.
    file: Option<FileWriter>,
    buffer: BytesMut,
    position: u64,
    /// After an error nobody knows what is in the file: all that follows fails with it.
    failed: Option<Failure>,
}

impl Writer {
    /// A new, empty file, in place of one that may be there.
    pub fn create(location: Location) -> Result<Self, Failure> {
        let path = location.path.clone();
        let file = clusters()?.call(&location, |client| async move {
            let options = WriteOptions::default().overwrite(true).create_parent(false);
            client.create(&path, options).await
        })?;
        Ok(Self::new(location, Some(file), 0))
    }

    /// The file as it is, or a new one.
    pub fn append(location: Location) -> Result<Self, Failure> {
        let path = location.path.clone();
        let found = clusters()?.call(&location, |client| async move {
            client.get_file_info(&path).await
        });
        match found {
            Ok(status) if status.isdir => Err(Failure::new(
                Code::FailedPrecondition,
                format!("{location}: it is a directory"),
            )),
            Ok(status) => Ok(Self::new(location, None, status.length as u64)),
            Err(failure) if failure.code == Code::NotFound => Self::create(location),
            Err(failure) => Err(failure),
        }
    }

    fn new(location: Location, file: Option<FileWriter>, position: u64) -> Self {
        Self {
            location,
            process: std::process::id(),
            file,
            buffer: BytesMut::new(),
            position,
            failed: None,
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.attempt(|this| {
            let limit = if this.file.is_some() {
                BUFFER
            } else {
                LOG_BUFFER
            };
            if this.buffer.len() + data.len() > limit {
                this.send()?;
            }
            if data.len() > limit {
                this.transfer(Bytes::copy_from_slice(data))?;
            } else {
                this.buffer.extend_from_slice(data);
            }
            this.position += data.len() as u64;
            Ok(())
        })
    }

    /// Make everything written so far visible and durable; also the end of writing.
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.attempt(|this| {
            this.send()?;
            match this.file.take() {
                Some(file) => close(&this.location, file),
                None => Ok(()),
            }
        })
    }

    fn attempt(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        if self.process != std::process::id() {
            return Err(Failure::new(
                Code::FailedPrecondition,
                format!(
                    "{}: it was opened by a parent process, which writes it",
                    self.location
                ),
            ));
        }
        operation(self).inspect_err(|failure| self.failed = Some(failure.clone()))
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let data = self.buffer.split().freeze();
        self.transfer(data)
    }

    fn transfer(&mut self, data: Bytes) -> Result<(), Failure> {
        let clusters = clusters()?;
        if let Some(file) = &mut self.file {
            clusters.wait(&self.location, file.write_bytes(data))?;
            return Ok(());
        }
        let path = self.location.path.clone();
        let mut file = clusters.call(&self.location, |client| async move {
            client.append(&path).await
        })?;
        clusters.wait(&self.location, file.write_bytes(data))?;
        close(&self.location, file)
    }
}

/// Close a file without the half second that hdfs-native sleeps.
///
/// The NameNode refuses to complete a file until a DataNode has told it of the last
/// block, which takes it some milliseconds. hdfs-native then sleeps 500 ms and asks
/// again. Its future is dropped in that sleep, and called again: by then the block
/// is closed and only the question is repeated, which is what it would do itself.
fn close(location: &Location, mut file: FileWriter) -> Result<(), Failure> {
    let clusters = clusters()?;
    let begun = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        match clusters.wait(location, close_or_refused(&mut file))? {
            Closed::Yes => return Ok(()),
            Closed::NotYet if begun.elapsed() > timeout() => {
                return Err(Failure::new(
                    Code::DeadlineExceeded,
                    format!(
                        "{location}: no DataNode has confirmed its last block for {} s",
                        timeout().as_secs_f64()
                    ),
                ));
            }
            Closed::NotYet => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

enum Closed {
    Yes,
    NotYet,
}

thread_local! {
    /// Whether the NameNode's answer to `complete` was read in this poll, and was no.
    static REFUSED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Poll `close` until it is done, or until it has read a refusal and thus sleeps.
async fn close_or_refused(file: &mut FileWriter) -> Result<Closed, HdfsError> {
    watch_answers();
    let mut closing = pin!(file.close());
    poll_fn(|context| {
        REFUSED.set(Some(false));
        let polled = closing.as_mut().poll(context);
        let refused = REFUSED.take() == Some(true);
        match polled {
            Poll::Ready(result) => Poll::Ready(result.map(|()| Closed::Yes)),
            Poll::Pending if refused => Poll::Ready(Ok(Closed::NotYet)),
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
