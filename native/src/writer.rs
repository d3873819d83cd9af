//! Files that are written, from front to back.
//!
//! What was written up to `sync` is there for every reader, also when this process is
//! killed. HDFS could do that with a file that stays open, but the clients of
//! hdfs-native, TensorBoard's among them, see nothing of an open block. So `sync`
//! closes the file. From then on it is taken for a log that others read: what follows
//! is kept here until the next `sync`, which opens the file, appends and closes it.
//!
//! If all DataNodes of a block are lost, or a NameNode's answer, hdfs-native gives the
//! file up. Then it is closed with what has arrived of it, and what has not is appended.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hdfs_native::client::WriteOptions;
use hdfs_native::file::FileWriter;

use crate::calls::{Try, timeout};
use crate::closing::{close, try_close};
use crate::cluster::clusters;
use crate::failure::{Code, Failure};
use crate::location::Location;
use crate::unconfirmed::Unconfirmed;

/// TensorFlow writes a record in four small pieces.
const BUFFER: usize = 1 << 20;
/// What a log may keep here for its next `sync`.
const LOG_BUFFER: usize = 4 << 20;
/// Between two questions whether a lost file is closed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a NameNode may have no DataNode for a block. Then HDFS is taken for full.
const NO_DATANODE: Duration = Duration::from_secs(10);

pub struct Writer {
    location: Location,
    process: u32,
    /// Open from its creation to the first `sync`.
    file: Option<FileWriter>,
    /// Whether it has been synced, and is taken for a log.
    is_log: bool,
    buffer: BytesMut,
    position: u64,
    /// The last of what HDFS was given.
    unconfirmed: Unconfirmed,
    /// After an error nobody knows what is in the file: all that follows fails with it.
    failed: Option<Failure>,
}

impl Writer {
    /// A new, empty file, in place of one that may be there.
    pub fn create(location: Location) -> Result<Self, Failure> {
        let path = &location.path;
        let file = clusters()?.call(&location, |Try { client, .. }| async move {
            let options = WriteOptions::default().overwrite(true).create_parent(false);
            client.create(path, options).await
        })?;
        Ok(Self::new(location, Some(file), 0))
    }

    /// The file as it is, or a new one.
    pub fn append(location: Location) -> Result<Self, Failure> {
        let path = &location.path;
        let found = clusters()?.call(&location, |Try { client, .. }| async move {
            client.get_file_info(path).await
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
            is_log: file.is_none(),
            file,
            buffer: BytesMut::new(),
            position,
            unconfirmed: Unconfirmed::after(position),
            failed: None,
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.attempt(|this| {
            for piece in data.chunks(BUFFER) {
                if this.buffer.len() + piece.len() > this.limit() {
                    this.send()?;
                }
                this.buffer.extend_from_slice(piece);
            }
            this.position += data.len() as u64;
            // Of a log that did not fit here, others are to see what has been sent.
            if this.is_log { this.close() } else { Ok(()) }
        })
    }

    /// Make everything written so far visible and durable; also the end of writing.
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.attempt(|this| {
            this.send()?;
            this.close()?;
            this.is_log = true;
            Ok(())
        })
    }

    fn limit(&self) -> usize {
        if self.is_log { LOG_BUFFER } else { BUFFER }
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
        // What it says unless the operation comes to its end.
        self.failed = Some(Failure::new(
            Code::Internal,
            format!("{}: writing it has panicked before", self.location),
        ));
        let outcome = operation(self);
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    /// Give HDFS what is in the buffer.
    fn send(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = BytesMut::with_capacity(BUFFER);
        let data = std::mem::replace(&mut self.buffer, next).freeze();
        let deadline = Instant::now() + timeout();
        self.unconfirmed.push(data.clone());
        let Err(failure) = self.transfer(deadline, data) else {
            return Ok(());
        };
        match retry_until(deadline, &failure) {
            Some(until) => self.recover(until, failure),
            None => Err(failure),
        }
    }

    fn transfer(&mut self, deadline: Instant, data: Bytes) -> Result<(), Failure> {
        if self.file.is_none() {
            self.open_again(deadline)?;
        }
        if let Some(file) = &mut self.file {
            clusters()?.transfer(deadline, &self.location, file.write_bytes(data))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout();
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if let Err(failure) = close(deadline, &self.location, file) {
            match retry_until(deadline, &failure) {
                Some(until) => self.close_lost(until, failure)?,
                None => return Err(failure),
            }
        }
        self.file = None;
        self.unconfirmed = Unconfirmed::after(self.unconfirmed.end());
        Ok(())
    }

    /// Close a file whose first closing failed. The NameNode may have done it nevertheless.
    fn close_lost(&mut self, deadline: Instant, failure: Failure) -> Result<(), Failure> {
        let recovered = self.recover(deadline, failure);
        if let Err(failure) = recovered {
            let path = &self.location.path;
            let found =
                clusters()?.call_until(deadline, &self.location, |Try { client, .. }| async move {
                    client.get_file_info(path).await
                });
            return match found {
                Ok(found)
                    if !failure.is_passing() && found.length as u64 == self.unconfirmed.end() =>
                {
                    Ok(())
                }
                _ => Err(failure),
            };
        }
        match &mut self.file {
            Some(file) => close(deadline, &self.location, file),
            None => Ok(()),
        }
    }

    fn open_again(&mut self, deadline: Instant) -> Result<(), Failure> {
        let path = &self.location.path;
        let opened =
            clusters()?.call_until(deadline, &self.location, |Try { client, .. }| async move {
                client.append(path).await
            })?;
        self.file = Some(opened);
        Ok(())
    }

    // ---- after DataNodes or an answer were lost

    /// Open the file again and append what is missing.
    fn recover(&mut self, deadline: Instant, mut failure: Failure) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        while Instant::now() + pause < deadline {
            failure = match self.try_recover(deadline) {
                Ok(true) => return Ok(()),
                Ok(false) => failure,
                Err(failure) if failure.is_passing() || failure.lacks_datanode => failure,
                Err(failure) => return Err(failure),
            };
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(failure)
    }

    /// One try; false if HDFS has not closed the file yet.
    fn try_recover(&mut self, deadline: Instant) -> Result<bool, Failure> {
        if let Some(file) = self.file.take() {
            check_owned(deadline, &self.location, file)?;
        }
        let path = &self.location.path;
        let length =
            clusters()?.call_until(deadline, &self.location, |Try { client, .. }| async move {
                if !client.recover_lease(path).await? {
                    return Ok(None);
                }
                Ok(Some(client.get_file_info(path).await?.length as u64))
            })?;
        let Some(length) = length else {
            return Ok(false);
        };
        let missing = self.unconfirmed.since(length).ok_or_else(|| {
            Failure::new(
                Code::DataLoss,
                format!(
                    "{}: its DataNodes were lost, and HDFS has kept {length} bytes of it",
                    self.location
                ),
            )
        })?;
        self.open_again(deadline)?;
        if let Some(file) = &mut self.file {
            for data in missing {
                clusters()?.transfer(deadline, &self.location, file.write_bytes(data))?;
            }
        }
        Ok(true)
    }
}

/// Up to when a write is tried again after a failure; None: it has failed for good.
fn retry_until(deadline: Instant, failure: &Failure) -> Option<Instant> {
    if failure.is_passing() {
        Some(deadline)
    } else if failure.lacks_datanode {
        Some(deadline.min(Instant::now() + NO_DATANODE))
    } else {
        None
    }
}

/// Check that nobody else has begun to write the file anew: then it is theirs.
///
/// What is left of it is closed. The first call may fail for the lost DataNodes. The
/// second asks the NameNode only, which knows by the file's number who writes it.
fn check_owned(
    deadline: Instant,
    location: &Location,
    mut file: FileWriter,
) -> Result<(), Failure> {
    let mut outcome = try_close(deadline, location, &mut file);
    if outcome.as_ref().is_err_and(Failure::is_passing) {
        outcome = try_close(deadline, location, &mut file);
    }
    outcome.map(|_| ())
}
