//! Calls to HDFS: each has a time limit, and is repeated within it if NameNodes were lost.
//!
//! hdfs-native goes from one NameNode to the next as long as none is active. It neither
//! leaves one that hangs, nor repeats a change whose answer was lost. Both is done here.

use std::future::Future;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hdfs_native::{Client, HdfsError};

use crate::cluster::Clusters;
use crate::configuration::Cluster;
use crate::failure::{Code, Failure};
use crate::location::Location;

const TIMEOUT_VARIABLE: &str = "YTF_HDFS_TIMEOUT_S";
/// A little longer than the 60 s after which hdfs-native writes on without a silent DataNode.
const TIMEOUT_S: f64 = 75.0;
/// Between two tries of a call whose answer was lost.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a NameNode that was silent may take to be connected to, when it is told why.
const PROBE: Duration = Duration::from_millis(300);

/// One try of a call.
pub struct Try {
    pub client: Client,
    /// Whether there was an earlier try, which HDFS may have executed.
    pub is_repeated: bool,
}

/// How long the NameNodes may take to answer one call, or DataNodes to send or take more.
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
    /// Call HDFS with the client of the file's cluster, within the time limit.
    pub fn call<T, F>(&self, location: &Location, call: impl Fn(Try) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, HdfsError>>,
    {
        self.call_until(Instant::now() + timeout(), location, call)
    }

    /// The same, up to a point in time.
    pub fn call_until<T, F>(
        &self,
        deadline: Instant,
        location: &Location,
        call: impl Fn(Try) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, HdfsError>>,
    {
        let cluster = self.configuration.cluster(location)?;
        // Those of a mount table are unknown, and there may be two of each.
        let mut unasked = match self.configuration.namenodes(&cluster).len() {
            0 => 2,
            count => count as u32,
        };
        let mut pause = FIRST_PAUSE;
        let mut is_repeated = false;
        loop {
            let known = self.client(location, &cluster)?;
            let client = known.client.clone();
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / unasked.max(1);
            let told = match self.within(
                share,
                call(Try {
                    client,
                    is_repeated,
                }),
            ) {
                Some(Ok(value)) => return Ok(value),
                Some(Err(error)) => Some(self.failure(location, &error)),
                None => None,
            };
            match &told {
                Some(failure) if !failure.is_passing() => return Err(failure.clone()),
                Some(_) => {}
                None => {
                    self.give_up(location, &cluster, &known);
                    unasked = unasked.saturating_sub(1);
                }
            }
            if Instant::now() + pause >= deadline {
                return Err(told.unwrap_or_else(|| self.silence(location, &cluster)));
            }
            is_repeated = true;
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Wait for what reads or writes data, up to a point in time. It is not repeated.
    pub fn transfer<T>(
        &self,
        deadline: Instant,
        location: &Location,
        future: impl Future<Output = Result<T, HdfsError>>,
    ) -> Result<T, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.within(left, future) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(self.failure(location, &error)),
            None => Err(Failure::new(
                Code::DeadlineExceeded,
                format!("{}: HDFS was silent for {}", self.shown(location), limit()),
            )),
        }
    }

    /// What hdfs-native's error about a file is for TensorFlow.
    pub fn failure(&self, location: &Location, error: &HdfsError) -> Failure {
        Failure::of(&self.shown(location), error)
    }

    /// The result of a future, unless it takes too long.
    fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let limited = async { tokio::time::timeout(limit, future).await.ok() };
        self.runtime.block_on(limited)
    }

    /// A file's URL, and its cluster if that does not show it.
    fn shown(&self, location: &Location) -> String {
        match self.configuration.cluster(location) {
            Ok(cluster) if location.authority.is_empty() => format!("{location} (in {cluster})"),
            _ => location.to_string(),
        }
    }

    /// The error after NameNodes have not answered, with what is seen of them from here.
    fn silence(&self, location: &Location, cluster: &Cluster) -> Failure {
        let seen: Vec<String> = self
            .configuration
            .namenodes(cluster)
            .iter()
            .map(|address| format!("{address} {}", probe(address)))
            .collect();
        let who = match seen.len() {
            0 => "the NameNodes behind it".to_owned(),
            1 => "its NameNode".to_owned(),
            _ => "its NameNodes".to_owned(),
        };
        Failure::new(
            Code::DeadlineExceeded,
            format!(
                "{}: {who} did not answer for {}. {}",
                self.shown(location),
                limit(),
                seen.join(", ")
            ),
        )
    }
}

fn limit() -> String {
    format!("{} s ({TIMEOUT_VARIABLE})", timeout().as_secs_f64())
}

fn probe(address: &str) -> &'static str {
    let Some(found) = address
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next())
    else {
        return "has no known host";
    };
    match TcpStream::connect_timeout(&found, PROBE) {
        Ok(_) => "accepts connections, but is silent or not active",
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "refuses connections: it does not run"
        }
        Err(_) => "cannot be reached",
    }
}
