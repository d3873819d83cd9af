//! The clusters this process has talked to: one client each, one set of threads for all.
//!
//! Threads do not survive a fork. A child process gets its own threads and clients
//! with its first call. Two things of its parent would still be in its way:
//!
//! - hdfs-native keeps connections to DataNodes for 3 s, for all clients of a process.
//!   A child that used one would take answers that its parent waits for, so it waits
//!   until they have expired.
//! - When it then drops them, they are removed from the epoll instance of the parent's
//!   threads, which both processes share. So another one is put in its place first.

use std::collections::HashMap;
use std::future::Future;
use std::net::ToSocketAddrs;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use hdfs_native::{Client, ClientBuilder, HdfsError};
use tokio::runtime::{Builder, Runtime};

use crate::failure::{Code, Failure};
use crate::location::Location;

/// How long the NameNodes may take to answer one call, or DataNodes to send or take more.
const TIMEOUT_VARIABLE: &str = "YTF_HDFS_TIMEOUT_S";
const TIMEOUT_S: f64 = 60.0;
const THREADS: usize = 2;
/// For how long hdfs-native keeps unused connections to DataNodes, and a little more.
const KEPT_CONNECTIONS: Duration = Duration::from_millis(3200);

/// What this process talks to HDFS with.
pub struct Clusters {
    process: u32,
    /// The descriptor with which this process's threads wait for the network.
    epoll: Option<RawFd>,
    runtime: Runtime,
    clients: Mutex<HashMap<String, Client>>,
}

/// Those of this process. They are never destroyed: TensorFlow may call until the very end.
pub fn clusters() -> Result<&'static Clusters, Failure> {
    static CURRENT: AtomicPtr<Clusters> = AtomicPtr::new(std::ptr::null_mut());
    let process = std::process::id();
    let known = CURRENT.load(Ordering::Acquire);
    // SAFETY: what is stored there is never freed.
    if let Some(current) = unsafe { known.as_ref() }
        && current.process == process
    {
        return Ok(current);
    }
    // SAFETY: as above.
    if let Some(of_parent) = unsafe { known.as_ref() } {
        of_parent.leave_to_parent();
    }
    let made = Box::into_raw(Box::new(Clusters::new(process)?));
    let result = CURRENT.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire);
    let current = match result {
        Ok(_) => made,
        Err(of_another_thread) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            of_another_thread
        }
    };
    // SAFETY: as above.
    Ok(unsafe { &*current })
}

/// The limit for one answer of HDFS, from the environment.
pub fn timeout() -> Duration {
    static TIMEOUT: OnceLock<Duration> = OnceLock::new();
    *TIMEOUT.get_or_init(|| {
        let given = std::env::var(TIMEOUT_VARIABLE).ok();
        let seconds = given.and_then(|text| text.trim().parse::<f64>().ok());
        let usable = seconds
            .filter(|s| s.is_finite() && *s > 0.0)
            .unwrap_or(TIMEOUT_S);
        Duration::from_secs_f64(usable.min(86_400.0))
    })
}

impl Clusters {
    fn new(process: u32) -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("ytf-hdfs")
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::new(
                    Code::ResourceExhausted,
                    format!("cannot start the threads that talk to HDFS: {error}"),
                )
            })?;
        let epoll = find_epoll(&runtime);
        Ok(Self {
            process,
            epoll,
            runtime,
            clients: Mutex::default(),
        })
    }

    /// Let nothing that this forked child does to what it inherited reach its parent.
    fn leave_to_parent(&self) {
        if let Some(epoll) = self.epoll {
            // SAFETY: both are descriptors of this process; its parent's stay as they are.
            unsafe {
                let empty = libc::epoll_create1(libc::EPOLL_CLOEXEC);
                if empty >= 0 {
                    libc::dup3(empty, epoll, libc::O_CLOEXEC);
                    libc::close(empty);
                }
            }
        }
        std::thread::sleep(KEPT_CONNECTIONS);
    }

    /// The client of a file's cluster. It connects with its first call.
    fn client(&self, location: &Location) -> Result<Client, Failure> {
        let cluster = location.cluster();
        let mut clients = self
            .clients
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(client) = clients.get(&cluster) {
            return Ok(client.clone());
        }
        check_host(location)?;
        let mut builder = ClientBuilder::new().with_io_runtime(self.runtime.handle().clone());
        if !cluster.is_empty() {
            builder = builder.with_url(cluster.clone());
        }
        let client = builder.build().map_err(|error| {
            Failure::new(
                Code::FailedPrecondition,
                format!(
                    "{location}: no cluster can be found from this name and the files in \
                     HADOOP_CONF_DIR ({error})"
                ),
            )
        })?;
        clients.insert(cluster, client.clone());
        Ok(client)
    }

    /// Forget a client whose connection hangs: the next call opens a new one.
    fn forget(&self, location: &Location) {
        let mut clients = self
            .clients
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        clients.remove(&location.cluster());
    }

    /// Wait for a future, within this process's time limit.
    pub fn wait<T>(
        &self,
        location: &Location,
        future: impl Future<Output = Result<T, HdfsError>>,
    ) -> Result<T, Failure> {
        let limited = async { tokio::time::timeout(timeout(), future).await };
        match self.runtime.block_on(limited) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::of(&location.to_string(), &error)),
            Err(_) => {
                self.forget(location);
                Err(Failure::new(
                    Code::DeadlineExceeded,
                    format!(
                        "{location}: HDFS has not answered for {} s ({TIMEOUT_VARIABLE})",
                        timeout().as_secs_f64()
                    ),
                ))
            }
        }
    }

    /// Call HDFS with the client of the file's cluster.
    pub fn call<T, F>(
        &self,
        location: &Location,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, HdfsError>>,
    {
        let client = self.client(location)?;
        self.wait(location, call(client))
    }
}

/// Refuse a host that does not exist: hdfs-native would look for it for minutes.
fn check_host(location: &Location) -> Result<(), Failure> {
    if location.scheme != "hdfs" || !location.authority.contains(':') {
        return Ok(());
    }
    location
        .authority
        .to_socket_addrs()
        .map(|_| ())
        .map_err(|error| {
            Failure::new(
                Code::FailedPrecondition,
                format!("{location}: there is no host of that name ({error})"),
            )
        })
}

/// The descriptor of the epoll instance of a runtime: the one that knows a socket of it.
fn find_epoll(runtime: &Runtime) -> Option<RawFd> {
    let _inside = runtime.enter();
    let (probe, _other) = tokio::net::UnixDatagram::pair().ok()?;
    let wanted = probe.as_raw_fd();
    let is_ours = |fd: &RawFd| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        info.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("tfd:") && words.next() == Some(&wanted.to_string())
        })
    };
    let names = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    names
        .filter_map(|name| name.file_name().to_str()?.parse().ok())
        .find(is_ours)
}
