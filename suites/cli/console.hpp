// SPDX-License-Identifier: Apache-2.0
// Where a verb writes. Results go to stdout, everything else to stderr. A reader that goes away ends the program
// quietly. Progress may be reported from several threads; everything else belongs to one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "loader/core/error.hpp"

namespace weightproof::suites::cli {

enum class Tone : std::uint8_t { plain, strong, muted, pass, warn, fail, skip, error };
enum class ColorChoice : std::uint8_t { automatic, always, never };

/// The reader of stdout went away. Caught by run(); a quiet success.
struct BrokenPipe {};

/// The error as a document: weightproof.error/1, without a newline at its end.
std::string error_document(const Error& error);

class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void set_color(ColorChoice choice);
  void set_json(bool json) { is_json_ = json; }
  void set_quiet(bool quiet) { is_quiet_ = quiet; }
  bool is_json() const { return is_json_; }
  bool is_quiet() const { return is_quiet_; }
  bool has_color() const { return has_color_; }
  unsigned width() const { return width_; }

  /// Throws BrokenPipe, or Error(io_error) where stdout cannot be written.
  void out(std::string_view text);
  void line(std::string_view text = {});
  /// Text in a tone, or plain where there is no colour.
  std::string styled(Tone tone, std::string_view text) const;
  void flush();

  /// One line on stderr. Never throws.
  void note(std::string_view text);
  /// The error with its code and remedy: one line on stderr; with --json also the document on stdout.
  void error(const Error& error, std::string_view verb);

  /// Draws at most ten times a second, only where stderr is a terminal that can.
  void progress(std::string_view what, std::uint64_t done, std::uint64_t total);
  void end_progress();

 private:
  void write_stdout(std::string_view text);
  std::string buffer_;
  bool is_json_ = false;
  bool is_quiet_ = false;
  bool has_color_ = false;
  bool can_draw_ = false;
  unsigned width_ = 100;
  std::mutex progress_mutex_;
  std::chrono::steady_clock::time_point last_drawn_{};
  bool has_drawn_ = false;
};

}  // namespace weightproof::suites::cli
