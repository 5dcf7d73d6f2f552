// The exit codes of smelt's command line: docs/exit_codes.md says what each means.
#ifndef SMELT_TOOLS_EXIT_CODES_H_
#define SMELT_TOOLS_EXIT_CODES_H_

#include "absl/status/status.h"

namespace smelt {

enum ExitCode {
  kExitOk = 0,
  kExitDifferent = 1,     // the result differs from what was expected
  kExitUsage = 2,         // wrong usage; arguments that do not fit the model's signature
  kExitUnreadable = 3,    // the input cannot be read or is corrupt
  kExitUnsupported = 4,   // something in it is not supported
  kExitWrongMachine = 5,  // this machine does not match the bundle's target
  kExitCannotWrite = 6,   // the output cannot be written, or a resource is exhausted
  kExitRefused = 7,       // the call is refused, as PyTorch would refuse it
  kExitSomeFailed = 8,    // some models of a batch failed
  kExitBug = 70,          // a bug in smelt
};

// Returns the code for a status of reading or running something. See WriteExitCodeOf for files that are written.
inline ExitCode ExitCodeOf(const absl::Status& s) {
  switch (s.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
      return kExitUnreadable;
    case absl::StatusCode::kUnimplemented:
      return kExitUnsupported;
    case absl::StatusCode::kFailedPrecondition:
      return kExitRefused;
    case absl::StatusCode::kResourceExhausted:
      return kExitCannotWrite;
    default:
      return kExitBug;
  }
}

// Returns the code for a status of loading a bundle to run it.
inline ExitCode LoadExitCodeOf(const absl::Status& s) {
  return s.code() == absl::StatusCode::kFailedPrecondition ? kExitWrongMachine : ExitCodeOf(s);
}

// Returns the code for a status of work whose inputs have been read, so that inaccessible files are outputs.
inline ExitCode WriteExitCodeOf(const absl::Status& s) {
  switch (s.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
      return kExitCannotWrite;
    default:
      return ExitCodeOf(s);
  }
}

}  // namespace smelt

#endif  // SMELT_TOOLS_EXIT_CODES_H_
