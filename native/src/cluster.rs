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
use std::net::ToSocketAddrs;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hdfs_native::{Client, ClientBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::calls::timeout;
use crate::configuration::{Cluster, Configuration};
use crate::failure::{Code, Failure};
use crate::location::Location;

const THREADS: usize = 2;
/// For how long hdfs-native keeps unused connections to DataNodes, and a little more.
const KEPT_CONNECTIONS: Duration = Duration::from_millis(3200);

/// What this process talks to HDFS with.
pub struct Clusters {
    process: u32,
    /// The descriptor with which this process's threads wait for the network.
    epoll: Option<RawFd>,
    pub runtime: Runtime,
    pub configuration: Configuration,
    clients: Mutex<HashMap<Cluster, Known>>,
}

/// The client of a cluster.
#[derive(Clone)]
pub struct Known {
    pub client: Client,
    /// How many clients of this cluster have been given up before.
    round: usize,
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
            configuration: Configuration::read(),
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
    pub fn client(&self, location: &Location, cluster: &Cluster) -> Result<Known, Failure> {
        if let Some(known) = self.clients().get(cluster) {
            return Ok(known.clone());
        }
        check_host(location, cluster)?;
        let known = self.build(location, cluster, 0)?;
        Ok(self
            .clients()
            .entry(cluster.clone())
            .or_insert(known)
            .clone())
    }

    /// Replace a client that hangs by one that asks another NameNode first.
    ///
    /// Other threads may have done so already.
    pub fn give_up(&self, location: &Location, cluster: &Cluster, hung: &Known) {
        let Ok(next) = self.build(location, cluster, hung.round + 1) else {
            return;
        };
        let mut clients = self.clients();
        if clients
            .get(cluster)
            .is_some_and(|known| known.round == hung.round)
        {
            clients.insert(cluster.clone(), next);
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Cluster, Known>> {
        self.clients
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn build(
        &self,
        location: &Location,
        cluster: &Cluster,
        round: usize,
    ) -> Result<Known, Failure> {
        // A DataNode that hangs is left for another one in time.
        let silence = (timeout() / 4).as_millis().max(1).to_string();
        let mut settings = self.configuration.settings(round);
        settings.push(("dfs.client.socket-timeout".into(), silence));
        let built = ClientBuilder::new()
            .with_io_runtime(self.runtime.handle().clone())
            .with_url(cluster.to_string())
            .with_config(settings)
            .build();
        match built {
            Ok(client) => Ok(Known { client, round }),
            Err(error) => Err(Failure::new(
                Code::FailedPrecondition,
                format!(
                    "{location}: no cluster can be found from this name and the files in \
                     HADOOP_CONF_DIR ({error})"
                ),
            )),
        }
    }
}

/// Refuse a host that does not exist: hdfs-native would look for it for minutes.
fn check_host(location: &Location, cluster: &Cluster) -> Result<(), Failure> {
    if cluster.scheme != "hdfs" || !cluster.authority.contains(':') {
        return Ok(());
    }
    let found = cluster.authority.to_socket_addrs();
    found.map(|_| ()).map_err(|error| {
        Failure::new(
            Code::FailedPrecondition,
            format!(
                "{location}: {} is neither a host nor a nameservice of the files in \
                 HADOOP_CONF_DIR ({error})",
                cluster.authority
            ),
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
