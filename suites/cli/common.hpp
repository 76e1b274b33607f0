// SPDX-License-Identifier: Apache-2.0
// What several verbs share.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/json.hpp"
#include "suites/cli/console.hpp"
#include "suites/cli/options.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites::cli {

/// What the command names is there: checkpoints, where its arguments are some, and what is compared with them. Their
/// absence is no finding about anything. Errors: no_checkpoint_found, io_error, with the path as it was given.
void require_named_paths(const Arguments& arguments, bool takes_checkpoints);

/// The options that say what is read and how it is judged.
VerifyOptions verify_options(const Arguments& arguments, Console& console);

/// The whole file. Throws Error(io_error), or Error(limit_exceeded) past `bytes_max`.
std::string read_text_file(const std::filesystem::path& path, std::size_t bytes_max);
/// Writes beside the target and renames, so that a reader never sees half a file. Throws Error(io_error).
void write_text_file(const std::filesystem::path& path, std::string_view text);
/// Creates the directory and what lies above it. Throws Error(io_error).
void make_directory(const std::filesystem::path& path);

/// A report as --json or as text for people, as the console is set.
void print_report(const reports::Report& report, const std::string& directory, Console& console);

/// Makes the directory of --report, before the work and not after it. What an earlier run left there goes, so that
/// whatever ends this one early leaves no report of another behind. Nothing where none is asked for. Throws
/// Error(usage) for a --format that has no directory to go to, Error(io_error).
void prepare_report(const Arguments& arguments);
/// The error as error.json in the directory of --report, in the place of the report that there is not.
void leave_error_report(const Error& error, const Arguments& arguments) noexcept;

/// The five documents of a report, written into `directory`, and what --format asks for besides.
void write_report_files(const reports::Report& report, const std::filesystem::path& directory,
                        const std::vector<std::string>& formats = {});

/// One rendering by the name that --format has for it, and the file it is written to. Precondition: a known name.
std::string rendered(const reports::Report& report, std::string_view format);
std::string_view file_of_format(std::string_view format);

}  // namespace weightproof::suites::cli
