//! Errors of HDFS as TensorFlow's status codes, with a sentence that says what to do.

use hdfs_native::HdfsError;

/// TensorFlow's status codes, as in its header `tf_status.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    /// The NameNode found no DataNode for a block. HDFS is full, or it does not know its
    /// DataNodes yet, as after a failover: its words are the same.
    pub lacks_datanode: bool,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            lacks_datanode: false,
        }
    }

    /// What an error of the HDFS client means for `path`.
    pub fn of(path: &str, error: &HdfsError) -> Self {
        let (code, reason) = explain(error);
        Self {
            lacks_datanode: matches!(error, HdfsError::RPCError(_, text) if text.contains(NO_TARGET)),
            ..Self::new(code, format!("{path}: {reason}"))
        }
    }

    /// Whether the code says all: there is no use in looking for a better reason.
    pub fn is_final(&self) -> bool {
        matches!(
            self.code,
            Code::PermissionDenied | Code::ResourceExhausted | Code::Unauthenticated
        )
    }

    /// Whether the same call may succeed in a moment: a DataNode or a connection was lost.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::DeadlineExceeded)
    }
}

fn explain(error: &HdfsError) -> (Code, String) {
    match error {
        HdfsError::FileNotFound(_) => (Code::NotFound, "no such file or directory".into()),
        // hdfs-native tells a file that another client writes as one that exists.
        HdfsError::AlreadyExists(text) if text.contains(" lease ") => (
            Code::FailedPrecondition,
            format!("another process is writing it ({})", first_line(text)),
        ),
        HdfsError::AlreadyExists(_) => (Code::AlreadyExists, "it exists already".into()),
        HdfsError::IsADirectoryError(_) => (Code::FailedPrecondition, "it is a directory".into()),
        HdfsError::InvalidPath(text) | HdfsError::InvalidArgument(text) => {
            (Code::InvalidArgument, text.clone())
        }
        HdfsError::UrlParseError(error) => (Code::InvalidArgument, error.to_string()),
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            explain_exception(class, text)
        }
        HdfsError::UnsupportedFeature(text) | HdfsError::UnsupportedErasureCodingPolicy(text) => {
            (Code::Unimplemented, text.clone())
        }
        HdfsError::ChecksumError => (
            Code::DataLoss,
            "its data do not match their checksums".into(),
        ),
        HdfsError::SASLError(text) => (Code::Unauthenticated, text.clone()),
        HdfsError::GSSAPIError(_, _, text) => (Code::Unauthenticated, text.clone()),
        HdfsError::NoSASLMechanism => (
            Code::Unauthenticated,
            "the NameNode wants an authentication that this process has no credentials for".into(),
        ),
        HdfsError::IOError(error) => (Code::Unavailable, format!("HDFS does not answer ({error})")),
        HdfsError::DataTransferError(text) => (
            Code::Unavailable,
            format!("no DataNode has served it ({text})"),
        ),
        HdfsError::BlocksNotFound(_) => (
            Code::Unavailable,
            "some of its blocks are on no live DataNode".into(),
        ),
        HdfsError::OperationFailed(text) => (Code::Unavailable, text.clone()),
        other => (Code::Internal, other.to_string()),
    }
}

/// What a NameNode says if it finds no DataNode for a block.
const NO_TARGET: &str = "could only be written to";

/// An exception of the NameNode: its class, and its first line without the stack.
fn explain_exception(class: &str, text: &str) -> (Code, String) {
    let line = first_line(text);
    let name = class.rsplit(['.', '$']).next().unwrap_or(class);
    let code = match name {
        "FileNotFoundException" => Code::NotFound,
        "FileAlreadyExistsException" => Code::AlreadyExists,
        // What the NameNode says of a path below a file.
        "AccessControlException" if line.contains("(is not a directory)") => {
            Code::FailedPrecondition
        }
        "AccessControlException" | "AuthorizationException" => Code::PermissionDenied,
        "InvalidToken" | "SaslException" | "GSSException" => Code::Unauthenticated,
        "ParentNotDirectoryException"
        | "PathIsNotDirectoryException"
        | "PathIsNotEmptyDirectoryException" => Code::FailedPrecondition,
        "InvalidPathException" | "IllegalArgumentException" | "HadoopIllegalArgumentException" => {
            Code::InvalidArgument
        }
        "QuotaExceededException"
        | "DSQuotaExceededException"
        | "NSQuotaExceededException"
        | "QuotaByStorageTypeExceededException" => Code::ResourceExhausted,
        "AlreadyBeingCreatedException"
        | "LeaseExpiredException"
        | "RecoveryInProgressException" => Code::FailedPrecondition,
        "SafeModeException" | "StandbyException" | "RetriableException" => Code::Unavailable,
        "NotReplicatedYetException" => Code::Unavailable,
        // Of a file that is to be appended to: the NameNode has not heard of its last block yet.
        "IOException" if line.contains("is not sufficiently replicated yet") => Code::Unavailable,
        "IOException" if line.contains("There are 0 datanode(s) running") => Code::Unavailable,
        "IOException" if line.contains(NO_TARGET) => Code::ResourceExhausted,
        "IOException" if line.contains("replicated to 0 nodes") => Code::ResourceExhausted,
        "PathComponentTooLongException" | "MaxDirectoryItemsExceededException" => {
            Code::FailedPrecondition
        }
        "UnsupportedOperationException" => Code::Unimplemented,
        _ => Code::Internal,
    };
    let line = if line.is_empty() { name } else { line };
    let reason = match name {
        "SafeModeException" => format!("the NameNode is in safe mode ({line})"),
        "IOException" if code == Code::ResourceExhausted => {
            format!("no DataNode has room for more ({line})")
        }
        _ => line.to_string(),
    };
    (code, reason)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_without_datanodes_is_told_from_other_refusals() {
        let refused = |text: &str| {
            let error = HdfsError::RPCError("java.io.IOException".into(), text.into());
            let failure = Failure::of("/a", &error);
            (failure.code, failure.lacks_datanode)
        };
        let full = "File /a could only be written to 0 of the 1 minReplication nodes.\n\tat x";
        assert_eq!(refused(full), (Code::ResourceExhausted, true));
        let soon = "append: lastBlock=b of src=/a is not sufficiently replicated yet.";
        assert_eq!(refused(soon), (Code::Unavailable, false));
    }
}
