// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/reference_side.hpp"

#include "reference/failure.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {
namespace {

// How experts lie in the file, in the reference's words; empty where the form does not say.
std::string_view expert_kind(const Form& form) {
  const std::string_view layout = form.expert_layout;
  if (layout == "blocks") {
    return "mxfp4_blocks";
  }
  if (layout.starts_with("stacked")) {
    return "stacked";
  }
  return layout.starts_with("per_expert") ? "per_expert" : "";
}

}  // namespace

ReferenceSide ask_reference(const Context& context) {
  ReferenceSide side;
  for (const Diagnostic& diagnostic : context.checkpoint.diagnostics) {
    if (diagnostic.check == "format.config" && diagnostic.severity == Severity::fail) {
      side.config_failure = "config.json cannot be used (format.config)";
      return side;
    }
  }
  std::vector<std::string> names;
  names.reserve(context.keys().size());
  for (const StoredTensor& row : context.keys().tensors()) {
    names.emplace_back(row.key);
  }
  try {
    side.config = reference::read_model_config(context.checkpoint.root);
    side.family = context.options.family.empty() ? reference::family_of_model(side.config.config, names, &side.evidence)
                                                 : reference::family_as_stored(context.options.family, names);
  } catch (const reference::Failure& failure) {
    side.config_failure = failure.what();
    return side;
  }
  try {
    const reference::Family family = reference::family_of(side.family, side.config.config);
    if (!family.takes_any_key) {
      side.name_space = reference::spelling_of(family, names).name;
    }
    side.experts = reference::experts_of(names);
  } catch (const reference::Failure& failure) {
    side.names_failure = failure.what();
  }
  return side;
}

std::string disagreement(const Context& context, const ReferenceSide& theirs) {
  // The reference has one name for each stored form of some families; the registry knows them as aliases.
  const adapters::Family* their_family = adapters::find_family(theirs.family);
  const adapters::Family* our_family = context.detection.family;
  if (their_family != our_family || (their_family == nullptr && theirs.family != "identity")) {
    return "the loader finds family " + (our_family == nullptr ? "identity" : std::string(our_family->name)) +
           ", the reference " + theirs.family;
  }
  const bool is_ours_mixed = context.family_error(ErrorCode::namespace_mixed) != nullptr;
  if (!theirs.names_failure.empty()) {
    return is_ours_mixed || !context.form ? std::string() : "the reference refuses the names: " + theirs.names_failure;
  }
  if (!context.form) {
    return {};
  }
  if (is_ours_mixed) {
    return "the loader finds names spelled in two ways, the reference does not";
  }
  if (context.form->name_space != theirs.name_space) {
    return "the loader reads names under '" + context.form->name_space + "', the reference under '" +
           theirs.name_space + "'";
  }
  const std::string_view ours = expert_kind(*context.form);
  if (!ours.empty() && theirs.experts != "none" && ours != theirs.experts) {
    return "the loader finds experts " + std::string(ours) + ", the reference " + theirs.experts;
  }
  return {};
}

}  // namespace weightproof::suites
