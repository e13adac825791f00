#include "runtime/config/yaml_parser.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>
#include <utility>

namespace capstan::config {

namespace {

// Where lines start, to find a scalar again in the text.
class Lines {
public:
    explicit Lines(std::string_view text) : text_(text) {
        if (text_.starts_with("\xEF\xBB\xBF")) {
            text_.remove_prefix(3);
        }
        starts_.push_back(0);
        for (std::size_t at = text_.find('\n'); at != std::string_view::npos;
             at = text_.find('\n', at + 1)) {
            starts_.push_back(at + 1);
        }
    }

    // True when a quoted scalar starts at `mark` and the text ends before its closing quote:
    // yaml-cpp accepts that.
    bool is_unterminated(const YAML::Mark& mark) const noexcept {
        if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= starts_.size()) {
            return false;
        }
        std::size_t at =
            starts_[static_cast<std::size_t>(mark.line)] + static_cast<std::size_t>(mark.column);
        if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) {
            return false;
        }
        const char quote = text_[at];
        for (++at; at < text_.size(); ++at) {
            if (quote == '"' && text_[at] == '\\') {
                ++at;
            } else if (text_[at] == quote) {
                const bool doubled =
                    quote == '\'' && at + 1 < text_.size() && text_[at + 1] == quote;
                if (!doubled) {
                    return false;
                }
                ++at;
            }
        }
        return true;
    }

private:
    std::string_view text_;
    std::vector<std::size_t> starts_;
};

// Builds one Document from yaml-cpp's events. Keeps going after a problem, so
// that all are reported.
class Builder final : public YAML::EventHandler {
public:
    Builder(Document& document, const LoadOptions& options, const Lines& lines)
        : document_(document), options_(options), lines_(lines) {}

    bool is_empty() const noexcept { return !seen_ || (null_root_ && document_.value.is_null()); }
    const std::vector<std::string>& problems() const noexcept { return problems_; }
    bool too_large() const noexcept { return too_large_; }
    int start() const noexcept { return start_; }  // offset of the document's first token

    // The text breaks off: of what is open, members of the root that were complete stay.
    void cut() {
        if (!stack_.empty()) {
            document_.value = std::move(stack_.front().value);
        }
        document_.partial = true;
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        document_.line = mark.line + 1;
        start_ = mark.pos;
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        refuse_anchor(mark, anchor);
        null_root_ = stack_.empty();
        if (at_key()) {
            problem(mark, "a key is missing before \":\"");
            take_key(mark, "");
            return;
        }
        add(mark, json::Value());
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        problem(mark, "aliases (*name) are not supported; write the value out");
        if (at_key()) {
            take_key(mark, "");
        } else {
            add(mark, json::Value());
        }
    }
    void OnScalar(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  const std::string& text) override {
        refuse_anchor(mark, anchor);
        const bool is_text = tag == "!" || tag == "tag:yaml.org,2002:str";
        const bool plain = tag.empty() || tag == "?";
        if (is_text && lines_.is_unterminated(mark)) {
            problem(mark, "the closing quote is missing");
        }
        if (!is_text && !plain) {
            problem(mark, "tag " + tag + " is not supported");
        }
        if (at_key()) {
            take_key(mark, text);
            return;
        }
        if (!plain) {
            add(mark, json::Value(text));
            return;
        }
        auto value = resolve_plain(text);
        if (!value) {
            problem(mark, value.error().message);
            add(mark, json::Value());
            return;
        }
        add(mark, std::move(value).value());
    }
    void OnSequenceStart(const YAML::Mark& mark,
                         const std::string& tag,
                         YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, json::list());
    }
    void OnMapStart(const YAML::Mark& mark,
                    const std::string& tag,
                    YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, json::object());
    }
    void OnSequenceEnd() override { close(); }
    void OnMapEnd() override { close(); }

private:
    struct Frame {
        json::Value value;
        std::string path;
        bool want_key{false};
        bool duplicate{false};
        std::string key;
        std::unordered_map<std::string, int> keys;  // of a map, with the line of each
    };

    bool at_key() const noexcept {
        return !stack_.empty() && stack_.back().value.is_object() && stack_.back().want_key;
    }

    void problem(const YAML::Mark& mark, const std::string& what) {
        if (problems_.size() >= kProblemsMax) {
            return;
        }
        std::string text = document_.file + ":" + std::to_string(mark.line + 1) + ": ";
        if (!stack_.empty()) {
            const std::string path = current_path();
            if (!path.empty()) {
                text += path + ": ";
            }
        }
        problems_.push_back(text + what);
    }

    std::string current_path() const {
        const Frame& frame = stack_.back();
        if (frame.value.is_array()) {
            return frame.path + "/" + std::to_string(frame.value.if_array()->size());
        }
        return frame.want_key ? frame.path
                              : frame.path + "/" + json::escape_pointer_token(frame.key);
    }

    void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
        if (anchor != YAML::NullAnchor) {
            problem(mark, "anchors (&name) are not supported; write the value out");
        }
    }

    void take_key(const YAML::Mark& mark, const std::string& key) {
        Frame& frame = stack_.back();
        const auto [it, fresh] = frame.keys.emplace(key, mark.line + 1);
        if (!fresh) {
            problem(mark,
                    "duplicate key \"" + key + "\", first on line " + std::to_string(it->second));
        }
        frame.key = key;
        frame.duplicate = !fresh;
        frame.want_key = false;
        if (fresh) {
            document_.lines[frame.path + "/" + json::escape_pointer_token(key)] = mark.line + 1;
        }
    }

    // Counts a node; false when the limit is passed (reported once).
    bool count(const YAML::Mark& mark) {
        if (++nodes_ <= options_.nodes_max) {
            return true;
        }
        if (!too_large_) {
            problem(mark, "more than " + std::to_string(options_.nodes_max) + " values");
        }
        too_large_ = true;
        return false;
    }

    void add(const YAML::Mark& mark, json::Value value) {
        seen_ = true;
        if (!count(mark)) {
            return;
        }
        if (stack_.empty()) {
            document_.value = std::move(value);
            return;
        }
        Frame& frame = stack_.back();
        if (json::Array* items = frame.value.if_array()) {
            // a map or list is known since its start
            document_.lines.try_emplace(current_path(), mark.line + 1);
            items->push_back(std::move(value));
            return;
        }
        frame.want_key = true;
        if (!frame.duplicate) {
            frame.value.if_object()->emplace_back(frame.key, std::move(value));
        }
    }

    void open(const YAML::Mark& mark,
              const std::string& tag,
              YAML::anchor_t anchor,
              json::Value empty) {
        refuse_anchor(mark, anchor);
        if (!tag.empty() && tag != "?" && tag != "!") {
            problem(mark, "tag " + tag + " is not supported");
        }
        if (at_key()) {
            problem(mark, "a key must be a single word or text");
            take_key(mark, "");
            complex_key_depths_.push_back(stack_.size());
        }
        if (stack_.size() == options_.depth_max && !too_large_) {
            problem(mark, "nested deeper than " + std::to_string(options_.depth_max) + " levels");
            too_large_ = true;
        }
        Frame frame;
        frame.path = stack_.empty() ? std::string() : current_path();
        if (!stack_.empty() && stack_.back().value.is_array()) {
            document_.lines[frame.path] = mark.line + 1;
        }
        frame.want_key = empty.is_object();
        frame.value = std::move(empty);
        stack_.push_back(std::move(frame));
    }

    void close() {
        json::Value value = std::move(stack_.back().value);
        stack_.pop_back();
        if (!complex_key_depths_.empty() && complex_key_depths_.back() == stack_.size()) {
            // the map or list was a key: its place was taken already
            complex_key_depths_.pop_back();
            return;
        }
        YAML::Mark mark;
        mark.line = document_.line;
        if (too_large_) {
            value = json::Value();
        }
        add(mark, std::move(value));
    }

    Document& document_;
    const LoadOptions& options_;
    const Lines& lines_;
    std::vector<Frame> stack_;
    std::vector<std::size_t> complex_key_depths_;
    std::vector<std::string> problems_;
    std::size_t nodes_{0};
    int start_{-1};
    bool seen_{false};
    bool null_root_{false};
    bool too_large_{false};
};

Error join(const std::vector<std::string>& problems, Code code) {
    std::string message;
    for (const std::string& text : problems) {
        message += (message.empty() ? "" : "\n") + text;
    }
    return Error{code, std::move(message), std::chrono::milliseconds{0}};
}

// One document of `parser`; what it throws is a problem like others.
bool next_document(YAML::Parser& parser,
                   Builder& builder,
                   const std::string& file,
                   Parsed& parsed) {
    std::string broken;
    bool more = false;
    try {
        more = parser.HandleNextDocument(builder);
    } catch (const YAML::ParserException& error) {
        broken = file + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg;
    } catch (const std::exception& error) {
        broken = file + ": " + error.what();
    }
    const std::vector<std::string>& found = builder.problems();
    parsed.problems.insert(parsed.problems.end(), found.begin(), found.end());
    parsed.too_large = parsed.too_large || builder.too_large();
    if (!broken.empty()) {
        parsed.problems.push_back(std::move(broken));
        builder.cut();
    }
    return more;
}

}  // namespace

Parsed parse_all(std::string_view text, const std::string& file, const LoadOptions& options) {
    Parsed parsed;
    int last_start = -1;
    const Lines lines(text);
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    for (bool more = true; more;) {
        Document document;
        document.file = file;
        Builder builder(document, options, lines);
        more = next_document(parser, builder, file, parsed);
        if (!more && !document.partial) {
            break;
        }
        // Of a stray "," yaml-cpp makes one empty document after the other, for ever.
        if (more && std::exchange(last_start, builder.start()) == builder.start()) {
            parsed.problems.push_back(file + ":" + std::to_string(document.line) +
                                      ": a \",\" outside of [] and {}");
            break;
        }
        if (builder.is_empty()) {
            continue;
        }
        if (parsed.documents.size() == options.documents_max) {
            parsed.problems.push_back(file + ": more than " +
                                      std::to_string(options.documents_max) + " documents");
            parsed.too_large = true;
            break;
        }
        parsed.documents.push_back(std::move(document));
    }
    return parsed;
}

Result<std::vector<Document>> parse_documents(std::string_view text,
                                              const std::string& file,
                                              const LoadOptions& options) {
    Parsed parsed = parse_all(text, file, options);
    if (!parsed.problems.empty()) {
        return fail(join(parsed.problems, parsed.too_large ? Code::too_large : Code::invalid));
    }
    return std::move(parsed.documents);
}

}  // namespace capstan::config
