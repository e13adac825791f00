// What an S3 server answers with: XML of unknown origin, alone and as the pages of a listing.
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/xml.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>

namespace {

using namespace capstan;
using namespace capstan::steward;
using capstan::fuzz::require;

// Elements of the document; nullopt: refused.
std::optional<std::vector<XmlElement>> elements_of(std::string_view document) {
    XmlReader reader(document);
    std::vector<XmlElement> out;
    while (true) {
        const auto element = reader.next();
        if (!element) {
            require(!element.error().message.empty(), "a refusal says why");
            return std::nullopt;
        }
        if (!element.value()) {
            return out;
        }
        out.push_back(*element.value());
    }
}

void check_document(std::string_view document) {
    const auto elements = elements_of(document);
    if (!elements) {
        return;
    }
    require(!elements->empty(), "a document has a root");
    const std::string& root = elements->back().path;
    require(root.find('/') == std::string::npos, "the root ends last");
    for (const XmlElement& element : *elements) {
        require(element.path.starts_with(root), "everything is below the root");
        require(element.text.size() <= std::min(kXmlTextBytesMax, document.size()),
                "text is no longer than what it was read from");
    }
    const std::size_t last = document.rfind("</" + root);
    if (last != std::string_view::npos && elements->size() > 1) {
        require(!elements_of(document.substr(0, last + 1)), "a document cut short is refused");
    }
    std::string spaced(document);
    spaced.insert(0, " ");
    require(elements_of(spaced).has_value(), "space in front changes nothing");
}

// Nobody here looks at signatures.
class NoDigests final : public Digests {
public:
    class None final : public Hasher {
    public:
        Result<void> update(std::span<const std::uint8_t>) override { return ok(); }
        Result<std::string> finish() override { return std::string(32, 'x'); }
    };

private:
    Result<std::unique_ptr<Hasher>> open(std::int32_t, std::string_view) override {
        return std::unique_ptr<Hasher>(std::make_unique<None>());
    }
};

class Answering final : public Transport {
public:
    explicit Answering(std::string_view body) : body_(body) {}

    class Exchange final : public HttpExchange {
    public:
        explicit Exchange(std::string_view body) : rest_(body) {}
        Result<void> write(std::string_view) override { return ok(); }
        Result<HttpHead> head() override { return HttpHead{200, {}}; }
        Result<std::size_t> read(std::span<char> into) override {
            const std::size_t n = std::min(into.size(), rest_.size());
            std::copy_n(rest_.begin(), n, into.begin());
            rest_.remove_prefix(n);
            return n;
        }

    private:
        std::string_view rest_;
    };
    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request, std::int64_t) override {
        const bool versioning = request.url.ends_with("versioning=");
        return std::unique_ptr<HttpExchange>(std::make_unique<Exchange>(
            versioning && !versions ? std::string_view("<VersioningConfiguration/>")
            : versioning ? std::string_view("<VersioningConfiguration><Status>Enabled</Status>"
                                            "</VersioningConfiguration>")
                         : body_));
    }
    bool versions{false};

private:
    const std::string_view body_;
};

class Still final : public Pace {
public:
    WallTime wall_now() override { return WallTime{}; }
    Result<void> sleep(std::chrono::nanoseconds) override { return ok(); }
    double chance() override { return 0; }
};

void check_listing(std::string_view document) {
    NoDigests digests;
    Answering transport(document);
    Still pace;
    const auto environment = [](const std::string& name) -> std::string {
        return name.starts_with("AWS_A") || name.starts_with("AWS_S") || name == "AWS_REGION"
                   ? "key"
                   : "";
    };
    const S3Parts parts{environment, "none_", "http://s3", digests, transport, pace};
    const auto store = S3Store::connect(parts, {"bucket", kPartBytesMin});
    require(store.has_value(), "the settings are fine");
    for (const bool versions : {false, true}) {
        transport.versions = versions;
        std::size_t count = 0;
        const auto listed =
            store.value()->list("", {}, [&](std::span<const ObjectInfo> page) -> Result<bool> {
                count += page.size();
                require(std::all_of(page.begin(),
                                    page.end(),
                                    [](const ObjectInfo& object) { return !object.key.empty(); }),
                        "objects have keys");
                return true;
            });
        require(count <= document.size(), "no more objects than bytes");
        require(listed || !listed.error().message.empty(), "a refusal says why");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view document(reinterpret_cast<const char*>(data), size);
    check_document(document);
    check_listing(document);
    return 0;
}
