//! Files that are read: at any place, by many threads, and quickly from front to back.
//!
//! From the second read that goes on where the last one ended, the rest of the file
//! is read ahead, by a task of its own: DataNodes send while TensorFlow works. What has
//! arrived is handed over in batches, because to wake a task for each packet would cost
//! TensorFlow's thread more than to copy it. Reads elsewhere fetch just what they ask for. If all DataNodes of a block are lost, the file is opened
//! anew, which asks the NameNode where its blocks are now.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use hdfs_native::HdfsError;
use hdfs_native::file::FileReader;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

use crate::calls::{Try, timeout};
use crate::cluster::clusters;
use crate::failure::{Code, Failure};
use crate::location::Location;

/// A gap that is read over rather than sought over.
const SKIPPED: u64 = 1 << 20;
/// How many packets, which are 64 KiB, are handed over at once, if so many have arrived.
const PACKETS: usize = 16;
/// How many batches are kept for the next reads of a file.
const BATCHES: usize = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// A file as it was when it was opened: where its blocks are, and its length.
struct Opened {
    process: u32,
    file: FileReader,
}

impl Opened {
    fn length(&self) -> u64 {
        self.file.file_length() as u64
    }
}

type Batch = Vec<Result<Bytes, HdfsError>>;

/// The rest of a file, on its way.
struct Ahead {
    position: u64,
    chunk: Bytes,
    batch: std::vec::IntoIter<Result<Bytes, HdfsError>>,
    batches: Receiver<Batch>,
    task: JoinHandle<()>,
    opened: Arc<Opened>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ahead {
    /// Forget it without a trace: in a forked child, its task belongs to the parent's threads.
    fn leave_to_parent(self) {
        std::mem::forget(self);
    }
}

/// What a file's reads in sequence share.
#[derive(Default)]
struct Sequence {
    /// Where the last read ended.
    end: u64,
    ahead: Option<Ahead>,
}

pub struct Reader {
    location: Location,
    opened: Mutex<Arc<Opened>>,
    sequence: Mutex<Sequence>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn open(location: &Location, deadline: Instant) -> Result<Arc<Opened>, Failure> {
    let path = &location.path;
    let file = clusters()?.call_until(deadline, location, |Try { client, .. }| async move {
        client.read(path).await
    })?;
    Ok(Arc::new(Opened {
        process: std::process::id(),
        file,
    }))
}

impl Reader {
    pub fn open(location: Location) -> Result<Self, Failure> {
        let opened = open(&location, Instant::now() + timeout())?;
        Ok(Self {
            location,
            opened: Mutex::new(opened),
            sequence: Mutex::default(),
        })
    }

    /// All of the file.
    pub fn read_all(&self) -> Result<Vec<u8>, Failure> {
        let mut content = vec![0; self.current()?.length() as usize];
        let count = self.read(0, &mut content)?;
        content.truncate(count);
        Ok(content)
    }

    /// Fill `buffer` from `offset` on; fewer bytes than that are the end of the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut opened = self.current()?;
        if offset + buffer.len() as u64 > opened.length() && offset >= opened.length() {
            // At the end: a file that is still being written may have grown.
            opened = self.reopen(&opened, Instant::now() + timeout())?;
        }
        let left = opened.length().saturating_sub(offset);
        let wanted = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        self.fill(opened, offset, &mut buffer[..wanted])?;
        Ok(wanted)
    }

    /// Read exactly so much, over losses of DataNodes, as long as anything arrives in time.
    fn fill(&self, mut opened: Arc<Opened>, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let mut done = 0;
        let mut pause = FIRST_PAUSE;
        let mut since = Instant::now();
        while done < buffer.len() {
            let position = offset + done as u64;
            let failure = match self.read_some(&opened, position, &mut buffer[done..]) {
                Ok(count) => {
                    done += count;
                    pause = FIRST_PAUSE;
                    since = Instant::now();
                    continue;
                }
                Err(failure) => failure,
            };
            if !failure.is_passing() || since.elapsed() + pause > timeout() {
                return Err(failure);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            opened = match self.reopen(&opened, since + timeout()) {
                Ok(opened) => opened,
                Err(failure) if failure.is_passing() => continue,
                Err(failure) => return Err(failure),
            };
            if opened.length() < offset + buffer.len() as u64 {
                return Err(Failure::new(
                    Code::DataLoss,
                    format!("{}: it was replaced by a shorter file", self.location),
                ));
            }
        }
        Ok(())
    }

    /// Read at least one byte, and perhaps not all that is wanted.
    fn read_some(
        &self,
        opened: &Arc<Opened>,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        let mut sequence = match self.sequence.try_lock() {
            Ok(sequence) => sequence,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is reading: this is no sequence.
            Err(TryLockError::WouldBlock) => return self.read_there(opened, position, buffer),
        };
        let ahead = match sequence.ahead.take() {
            Some(ahead)
                if Arc::ptr_eq(&ahead.opened, opened)
                    && (ahead.position..=ahead.position + SKIPPED).contains(&position) =>
            {
                Some(ahead)
            }
            other => {
                if let Some(ahead) = other
                    && ahead.opened.process != opened.process
                {
                    ahead.leave_to_parent();
                }
                let is_next = position == sequence.end && position > 0;
                is_next
                    .then(|| self.read_ahead(opened, position))
                    .transpose()?
            }
        };
        let count = match ahead {
            Some(mut ahead) => {
                let count = self.take(&mut ahead, position, buffer)?;
                sequence.ahead = Some(ahead);
                count
            }
            None => self.read_there(opened, position, buffer)?,
        };
        sequence.end = position + count as u64;
        Ok(count)
    }

    fn read_there(
        &self,
        opened: &Opened,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        let future = opened.file.read_range_buf(buffer, position as usize);
        clusters()?.transfer(Instant::now() + timeout(), &self.location, future)?;
        Ok(buffer.len())
    }

    fn read_ahead(&self, opened: &Arc<Opened>, position: u64) -> Result<Ahead, Failure> {
        let length = (opened.length() - position) as usize;
        let packets = opened.file.read_range_stream(position as usize, length);
        let (sender, batches) = mpsc::channel(BATCHES);
        let task = clusters()?.runtime.spawn(async move {
            let mut arrived = packets.ready_chunks(PACKETS).boxed();
            while let Some(batch) = arrived.next().await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Ok(Ahead {
            position,
            chunk: Bytes::new(),
            batch: Batch::new().into_iter(),
            batches,
            task,
            opened: Arc::clone(opened),
        })
    }

    /// The bytes from `position` on, as many as have arrived and at least one.
    fn take(&self, ahead: &mut Ahead, position: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut taken = 0;
        loop {
            let skipped = (position - ahead.position.min(position)).min(ahead.chunk.len() as u64);
            ahead.chunk.advance(skipped as usize);
            ahead.position += skipped;
            if ahead.position >= position {
                let count = ahead.chunk.len().min(buffer.len() - taken);
                ahead.chunk.copy_to_slice(&mut buffer[taken..taken + count]);
                ahead.position += count as u64;
                taken += count;
            }
            if taken == buffer.len() {
                return Ok(taken);
            }
            ahead.chunk = self.next(ahead)?;
        }
    }

    /// The next packet, once it has arrived.
    fn next(&self, ahead: &mut Ahead) -> Result<Bytes, Failure> {
        if ahead.batch.len() == 0
            && let Some(batch) = self.next_batch(ahead)?
        {
            ahead.batch = batch.into_iter();
        }
        match ahead.batch.next() {
            Some(Ok(packet)) => Ok(packet),
            Some(Err(error)) => Err(clusters()?.failure(&self.location, &error)),
            None => Err(Failure::new(
                Code::Unavailable,
                format!("{}: its DataNodes sent less than it has", self.location),
            )),
        }
    }

    /// What has arrived since the last time, at least one packet; none at the end.
    fn next_batch(&self, ahead: &mut Ahead) -> Result<Option<Batch>, Failure> {
        if let Ok(batch) = ahead.batches.try_recv() {
            return Ok(Some(batch));
        }
        let deadline = Instant::now() + timeout();
        clusters()?.transfer(deadline, &self.location, async {
            Ok(ahead.batches.recv().await)
        })
    }

    /// The file as last opened, by this process.
    fn current(&self) -> Result<Arc<Opened>, Failure> {
        let opened = locked(&self.opened).clone();
        if opened.process == std::process::id() {
            return Ok(opened);
        }
        // Its connections belong to the threads of a parent process.
        std::mem::forget(Arc::clone(&opened));
        self.reopen(&opened, Instant::now() + timeout())
    }

    /// Open the file anew, unless another thread just has.
    fn reopen(&self, old: &Arc<Opened>, deadline: Instant) -> Result<Arc<Opened>, Failure> {
        let mut current = locked(&self.opened);
        if Arc::ptr_eq(&current, old) {
            *current = open(&self.location, deadline)?;
        }
        Ok(Arc::clone(&current))
    }
}
