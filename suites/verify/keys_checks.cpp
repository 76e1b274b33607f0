// SPDX-License-Identifier: Apache-2.0
// keys.*: names and shapes against what the family derives from config.json, in both directions.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "suites/state/native_state.hpp"
#include "suites/state/subset.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/pairs.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr std::size_t k_pairs_shown = 3;
constexpr const char* k_adapter_reason = "names and shapes of a low-rank adapter are judged by adapter.*";
constexpr std::size_t k_pair_candidates = 512;

std::string form_text(const Form& form) {
  std::string out = "namespace '" + printable(form.name_space) + "'";
  if (!form.expert_layout.empty()) {
    out += ", experts " + printable(form.expert_layout);
  }
  if (!form.generation.empty()) {
    out += ", generation " + printable(form.generation);
  }
  if (!form.quantization.empty()) {
    out += ", quantization " + printable(form.quantization);
  }
  out += form.is_tied ? ", head tied to the embedding" : ", head of its own";
  if (form.has_mtp) {
    out += ", with MTP layers";
  }
  return out;
}

// Sizes of one say nothing: "pp=1,dp=1,fsdp=1,cp=1,tp=2,ep=1" is typed as tp=2.
std::string typed_topology(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    if (!part.ends_with("=1")) {
      out += (out.empty() ? "" : ",") + printable(part);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out.empty() ? "tp=1" : out;
}

CheckRecord family(Context& context) {
  CheckBuilder builder("keys.family");
  builder.examined(context.keys().size());
  const adapters::Detection& detection = context.detection;
  if (const auto mark = native_mark(context.checkpoint)) {
    return builder.note(mark->text() + ". Names and shapes are those of the running model, which no checkpoint has: " +
                        (mark->is_part() ? "`weightproof verify SOURCE --topology " + typed_topology(mark->topology) +
                                               "` judges all ranks beside the source"
                                         : "`weightproof export` makes the stored tensors again, which can be judged"));
  }
  std::string text;
  if (detection.family == nullptr) {
    const std::string why = detection.evidence.empty() ? context.no_schema_reason : detection.evidence;
    text = "no model family: every tensor is taken as it is (" + printable(why, 400) + ")";
  } else {
    text = "family " + std::string(detection.family->name) + " (" + printable(detection.evidence, 400) + ")";
  }
  if (context.form) {
    text += "; " + form_text(*context.form);
  }
  if (context.has_inferred_config) {
    text += "; no config.json: sizes and counts are those that the names show";
  }
  if (!context.incomplete_keys_reason().empty() && context.keys().size() == 0) {
    return builder.note(text);
  }
  if (context.adapter) {
    return builder.note(text + "; of the base, which the reference reads by itself in value.exact");
  }
  const ReferenceSide& theirs = context.reference_side();
  if (!theirs.config_failure.empty()) {
    return builder.note(text + "; the reference finds none: " + printable(theirs.config_failure, 400));
  }
  std::string evidence;
  for (const std::string& line : theirs.evidence) {
    evidence += (evidence.empty() ? "" : "; ") + line;
  }
  if (const std::string difference = disagreement(context, theirs); !difference.empty()) {
    return builder.explanation(text + "; the reference: " + printable(evidence, 400))
        .expected(theirs.family)
        .actual(detection.family == nullptr ? std::string("identity") : std::string(detection.family->name))
        .hint(
            "one of two independent readings of config.json and names is wrong: report it with both; --family NAME "
            "decides")
        .fail(printable(difference, 400));
  }
  return builder.note(text);
}

// What keeps names from being judged against the config; empty where nothing does.
std::string no_coverage(const Context& context) {
  if (!context.schema) {
    return context.no_schema_reason;
  }
  return context.incomplete_keys_reason();
}

std::string passthrough_text(const Context& context, const plan::KeyCoverage& coverage) {
  std::string out;
  for (const plan::MatchedRows& rule : coverage.passed_through) {
    out += (out.empty() ? "" : "; ") + counted(rule.rows.size(), "tensor", "tensors") + " under " +
           printable(rule.pattern) + " pass through: whether any is missing cannot be asked (" + rule.reason + ")";
  }
  (void)context;
  return out;
}

// Missing keys beside the unexpected keys they most resemble: one fact seen from two sides.
std::string pairs_text(const std::vector<std::string>& missing, const std::vector<std::string>& unexpected) {
  std::string out;
  std::size_t shown = 0;
  std::vector<std::string_view> candidates(
      unexpected.begin(),
      unexpected.begin() + static_cast<std::ptrdiff_t>(std::min(unexpected.size(), k_pair_candidates)));
  for (const std::string& key : missing) {
    if (shown == k_pairs_shown || candidates.empty()) {
      break;
    }
    std::string_view best;
    std::size_t least = std::max<std::size_t>(3, std::min<std::size_t>(key.size() / 3, 24)) + 1;
    for (const std::string_view candidate : candidates) {
      const std::size_t gap =
          candidate.size() > key.size() ? candidate.size() - key.size() : key.size() - candidate.size();
      if (gap >= least || candidate.size() > 512) {
        continue;
      }
      const std::size_t distance = edit_distance(key, candidate);
      if (distance < least) {
        least = distance;
        best = candidate;
      }
    }
    if (!best.empty()) {
      out += (shown == 0 ? "perhaps the same under another name: " : ", ") + printable(key) + " as " + printable(best);
      ++shown;
    }
  }
  return out;
}

std::vector<std::string> keys_of(const Schema& schema, const std::vector<StoredId>& ids) {
  std::vector<std::string> out;
  for (const StoredId id : ids) {
    out.emplace_back(schema.stored_tensors()[id].key);
  }
  return out;
}

std::vector<std::string> keys_of(const Catalog& catalog, const std::vector<plan::Row>& rows) {
  std::vector<std::string> out;
  for (const plan::Row row : rows) {
    out.emplace_back(catalog.tensors()[row].key);
  }
  return out;
}

CheckRecord missing(Context& context) {
  CheckBuilder builder("keys.missing");
  if (context.adapter) {
    return builder.skip(k_adapter_reason);
  }
  if (const std::string reason = no_coverage(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const plan::KeyCoverage& coverage = context.coverage();
  builder.examined(coverage.asked);
  std::string remark = passthrough_text(context, coverage);
  if (!coverage.missing_allowed.empty()) {
    const auto allowed = keys_of(*context.schema, coverage.missing_allowed);
    remark += (remark.empty() ? "" : "; ") + counted(allowed.size(), "missing key is", "missing keys are") +
              " allowed by --allow-missing: " + listed(allowed);
  }
  if (coverage.missing.empty()) {
    return remark.empty() ? builder.pass() : builder.note(remark);
  }
  const auto absent = keys_of(*context.schema, coverage.missing);
  for (const std::string& key : absent) {
    builder.subject(key);
  }
  const std::string pairs = pairs_text(absent, keys_of(context.keys(), coverage.unexpected));
  builder.explanation(pairs.empty() ? remark : pairs);
  builder.expected(coverage.asked).actual(coverage.present).code("MISSING_KEYS");
  builder.hint("--allow-missing GLOB accepts their absence; `weightproof adapters show " +
               std::string(context.schema->family()) + "` lists what is required");
  return builder.fail(counted(absent.size(), "tensor", "tensors") + " that " + std::string(context.schema->family()) +
                      " requires " + (absent.size() == 1 ? "is" : "are") + " missing: " + listed(absent));
}

bool is_orphan(Context& context, const std::string& key) {
  for (const Diagnostic& diagnostic : context.quantization().diagnostics) {
    const auto& keys = diagnostic.facts.keys;
    if (diagnostic.check == "quant.scale_orphan" && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return true;
    }
  }
  return false;
}

CheckRecord unexpected(Context& context) {
  CheckBuilder builder("keys.unexpected");
  if (context.adapter) {
    return builder.skip(k_adapter_reason);
  }
  if (const std::string reason = no_coverage(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const plan::KeyCoverage& coverage = context.coverage();
  builder.examined(context.keys().size());
  if (coverage.unexpected.empty()) {
    if (!coverage.unexpected_allowed.empty()) {
      const auto allowed = keys_of(context.keys(), coverage.unexpected_allowed);
      return builder.note(counted(allowed.size(), "tensor", "tensors") +
                          " that the model does not know, allowed by --allow-unexpected: " + listed(allowed));
    }
    return builder.pass();
  }
  std::vector<std::string> extra = keys_of(context.keys(), coverage.unexpected);
  // A scale without its weight is judged under its own id.
  const std::size_t orphans =
      std::erase_if(extra, [&context](const std::string& key) { return is_orphan(context, key); });
  if (extra.empty()) {
    return builder.note(counted(orphans, "tensor belongs", "tensors belong") + " to no weight (quant.scale_orphan)");
  }
  for (const std::string& key : extra) {
    builder.subject(key);
  }
  builder.explanation(pairs_text(keys_of(*context.schema, coverage.missing), extra)).code("UNEXPECTED_KEYS");
  builder.hint("--allow-unexpected notes them instead; --exclude GLOB leaves them out");
  return builder.fail(counted(extra.size(), "tensor", "tensors") + " that " + std::string(context.schema->family()) +
                      " does not know: " + listed(extra));
}

CheckRecord shape(Context& context) {
  CheckBuilder builder("keys.shape");
  if (context.adapter) {
    return builder.skip(k_adapter_reason);
  }
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  if (!context.quantization().undecodable.empty()) {
    return builder.skip("shapes are those of decoded weights, and these cannot be decoded: " +
                        context.quantization().undecodable);
  }
  const plan::KeyCoverage& coverage = context.coverage();
  std::uint64_t examined = 0;
  for (const plan::Row row : coverage.row_of) {
    examined += row != plan::k_no_row && context.keys().tensors()[row].is_described ? 1U : 0U;
  }
  builder.examined(examined);
  if (!coverage.shape_mismatches.empty()) {
    const Schema& schema = *context.schema;
    for (const plan::ShapeMismatch& mismatch : coverage.shape_mismatches) {
      builder.subject(schema.stored_tensors()[mismatch.stored].key);
    }
    const plan::ShapeMismatch& first = coverage.shape_mismatches.front();
    const LogicalTensor& tensor = schema.stored_tensors()[first.stored];
    const std::string expected = to_string(schema.shape_of(tensor));
    const std::string actual = to_string(first.found);
    builder.expected(expected).actual(actual).code("SHAPE_MISMATCH");
    builder.evidence("file", context.keys().files()[context.keys().tensors()[first.row].file]);
    if (element_count(first.found) == 0U && element_count(schema.shape_of(tensor)) != 0U) {
      builder.explanation("the stored tensor is empty: it was saved without being gathered from its ranks");
    }
    return builder.hint("config.json and weights belong to different models, or the tensor was saved wrongly")
        .fail(counted(coverage.shape_mismatches.size(), "tensor has", "tensors have") +
              " another shape than config.json asks for: " + printable(tensor.key) + " is " + actual + ", not " +
              expected);
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text() + "; " +
                        counted(examined, "other tensor", "other tensors") + " examined, nothing found");
  }
  return builder.pass();
}

CheckRecord wrapper_prefix(Context& context) {
  CheckBuilder builder("keys.wrapper_prefix");
  const auto rows = context.keys().tensors();
  if (!context.incomplete_keys_reason().empty() && rows.empty()) {
    return builder.skip(context.incomplete_keys_reason());
  }
  std::optional<bool> is_adapter;  // asked only where it matters
  const auto has_low_rank_names = [&] {
    if (!is_adapter) {
      is_adapter = std::any_of(rows.begin(), rows.end(), [](const StoredTensor& row) {
        return row.key.find(".lora_") != std::string_view::npos;
      });
    }
    return *is_adapter;
  };
  builder.examined(rows.size());
  std::string first;
  std::string first_name;
  for (const StoredTensor& row : rows) {
    if (!context.selects(row.key)) {
      continue;
    }
    adapters::WrapperPrefix found = adapters::find_wrapper_prefix(row.key);
    // A low-rank adapter's names begin with base_model.model. by convention.
    if (!found.prefix.empty() && !(found.prefix == "base_model.model." && has_low_rank_names())) {
      builder.subject(row.key);
      if (first.empty() || row.key < first) {
        first = row.key;
        first_name = std::move(found.stripped);
      }
    }
  }
  if (!builder.has_subjects()) {
    return builder.pass();
  }
  return builder.expected(first_name)
      .actual(first)
      .hint("save the unwrapped module, or rename: " + printable(first) + " should be " + printable(first_name))
      .fail(counted(builder.subject_count(), "name carries", "names carry") +
            " the prefix of a wrapper: " + printable(first) + " should be " + printable(first_name));
}

CheckRecord collision(Context& context) {
  CheckBuilder builder("keys.collision");
  const Error* mixed = context.family_error(ErrorCode::namespace_mixed);
  if (mixed != nullptr && mixed->check() == "keys.collision") {
    CheckRecord record = failed_record("keys.collision", *mixed);
    if (context.schema && context.incomplete_keys_reason().empty()) {
      // The names in the wrong spelling, and what they should be.
      const auto extra = keys_of(context.keys(), context.coverage().unexpected);
      const auto absent = keys_of(*context.schema, context.coverage().missing);
      CheckBuilder both("keys.collision");
      for (const auto* names : {&extra, &absent}) {
        for (const std::string& name : *names) {
          both.subject(name);
        }
      }
      if (both.has_subjects()) {
        const CheckRecord listed_names = both.fail(record.message);
        record.subjects = listed_names.subjects;
        record.total = listed_names.total;
      }
      record.explanation = pairs_text(absent, extra);
    }
    return record;
  }
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  // A native tensor that several stored ones fill whole would be written twice.
  const Schema& schema = *context.schema;
  std::vector<StoredId> writer(schema.native_tensors().size(), k_no_id);
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::primary || context.coverage().row_of[binding.stored] == plan::k_no_row) {
      continue;
    }
    const NativeTensor& native = schema.native_tensors()[binding.native];
    if (schema.native_view(binding) != View::whole(schema.shape_of(native))) {
      continue;
    }
    if (writer[binding.native] != k_no_id) {
      builder.subject(schema.stored_tensors()[writer[binding.native]].key)
          .subject(schema.stored_tensors()[binding.stored].key);
      builder.evidence("destination", native.key);
    }
    writer[binding.native] = binding.stored;
  }
  return builder.examined(schema.stored_tensors().size()).fail_if_subjects("two stored tensors claim one destination");
}

CheckRecord rename(Context& context) {
  CheckBuilder builder("keys.rename");
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  // forward: stored name of a tensor that is moved whole -> native name.
  const Schema& schema = *context.schema;
  std::unordered_map<std::string_view, std::string_view> forward;
  std::unordered_map<std::string_view, std::string_view> backward;
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::primary) {
      continue;
    }
    const LogicalTensor& stored = schema.stored_tensors()[binding.stored];
    const NativeTensor& native = schema.native_tensors()[binding.native];
    if (schema.stored_view(binding) == View::whole(schema.shape_of(stored)) &&
        schema.native_view(binding) == View::whole(schema.shape_of(native))) {
      forward.emplace(stored.key, native.key);
      backward.emplace(native.key, stored.key);
    }
  }
  std::string first;
  for (const auto& [stored, native] : forward) {
    const auto again = forward.find(native);
    const bool is_stable = again == forward.end() || again->second == native;
    const bool returns = backward.at(native) == stored;
    if (!is_stable || !returns) {
      builder.subject(stored);
    }
  }
  return builder.examined(forward.size()).fail_if_subjects("renaming is not the same forward and back");
}

CheckRecord duplicate_across_shards(Context& context) { return duplicate_record(context); }

CheckRecord subset(Context& context) {
  CheckBuilder builder("keys.subset");
  if (!context.has_subset()) {
    return builder.skip("no subset is asked for (--include, --exclude)");
  }
  std::uint64_t selected = 0;
  for (const StoredTensor& row : context.keys().tensors()) {
    selected += context.selects(row.key) ? 1U : 0U;
  }
  builder.examined(selected);
  if (selected == 0) {
    std::vector<std::string_view> names;
    for (const StoredTensor& row : context.keys().tensors()) {
      names.push_back(row.key);
    }
    const EmptySubset why = explain_empty_subset(context.options.include, context.options.exclude, names);
    return builder.code("SUBSET_EMPTY").hint(why.hint).fail(why.message);
  }
  if (!context.schema) {
    return builder.note(grouped(selected) + " of " + counted(context.keys().size(), "tensor is", "tensors are") +
                        " judged; " + context.no_schema_reason);
  }
  const plan::KeyCoverage& coverage = context.coverage();
  if (coverage.present == 0) {
    return builder.code("SUBSET_EMPTY")
        .hint("`weightproof adapters show " + std::string(context.schema->family()) + "` lists what the model has")
        .fail("none of the selected tensors belongs to the model");
  }
  return builder.note(grouped(selected) + " of " + counted(context.keys().size(), "tensor is", "tensors are") +
                      " judged");
}

CheckRecord dropped(Context& context) {
  CheckBuilder builder("keys.dropped");
  if (const std::string reason = no_coverage(context); !reason.empty()) {
    return builder.skip(reason);
  }
  std::string text;
  std::uint64_t count = 0;
  for (const plan::MatchedRows& rule : context.coverage().dropped) {
    if (rule.rows.empty()) {
      continue;
    }
    count += rule.rows.size();
    text += (text.empty() ? "" : "; ") + counted(rule.rows.size(), "tensor", "tensors") + " by " +
            printable(rule.pattern) + " (" + rule.reason + ")";
    for (const plan::Row row : rule.rows) {
      builder.subject(context.keys().tensors()[row].key);
    }
  }
  builder.examined(context.keys().size());
  return count == 0 ? builder.pass() : builder.note("not loaded: " + text);
}

CheckRecord defaulted(Context& context) {
  CheckBuilder builder("keys.defaulted");
  if (const std::string reason = no_coverage(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const Schema& schema = *context.schema;
  std::vector<std::string> taken(schema.defaulted().begin(), schema.defaulted().end());
  for (const StoredId id : context.coverage().absent_optional) {
    const LogicalTensor& tensor = schema.stored_tensors()[id];
    taken.push_back(std::string(tensor.key) + " absent" +
                    (tensor.absent_rule == k_no_id ? std::string() : ": " + schema.rule(tensor.absent_rule)));
    builder.subject(tensor.key);
  }
  builder.examined(schema.stored_tensors().size());
  return taken.empty() ? builder.pass() : builder.note("taken by default: " + listed(taken, 6));
}

constexpr std::array k_checks = {
    VerifyCheck{"keys.family", &family},
    VerifyCheck{"keys.missing", &missing},
    VerifyCheck{"keys.unexpected", &unexpected},
    VerifyCheck{"keys.shape", &shape},
    VerifyCheck{"keys.duplicate_across_shards", &duplicate_across_shards},
    VerifyCheck{"keys.wrapper_prefix", &wrapper_prefix},
    VerifyCheck{"keys.collision", &collision},
    VerifyCheck{"keys.rename", &rename},
    VerifyCheck{"keys.subset", &subset},
    VerifyCheck{"keys.dropped", &dropped},
    VerifyCheck{"keys.defaulted", &defaulted},
};

}  // namespace

std::span<const VerifyCheck> keys_checks() { return k_checks; }

}  // namespace weightproof::suites
