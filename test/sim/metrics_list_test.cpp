// The exposition of a runtime in virtual time against test/data/metrics-names.txt. The same list is
// compared with a real `capstan run` by test/e2e/ops_test.py, with the values of labels too.
#include "runtime/cli/observers.hpp"
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace capstan::test {
namespace {

using Words = std::vector<std::string>;

struct Listed {
    std::string type, when, buckets;
    std::set<std::string> labels;
};

Words words(const std::string& text, char separator) {
    Words out;
    std::stringstream stream(text);
    for (std::string word; std::getline(stream, word, separator);) {
        const std::size_t from = word.find_first_not_of(' ');
        if (from != std::string::npos) {
            out.push_back(word.substr(from, word.find_last_not_of(' ') - from + 1));
        }
    }
    return out;
}

// By name; buckets as "0.1,1,+Inf,".
std::map<std::string, Listed> listed() {
    std::ifstream file(std::string(std::getenv("CAPSTAN_SOURCE_ROOT")) +
                       "/test/data/metrics-names.txt");
    std::map<std::string, Listed> out;
    std::map<std::string, std::string> buckets;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("buckets ")) {
            std::string bounds;
            for (const std::string& bound : words(line.substr(line.find('=') + 1), ' ')) {
                bounds += bound + ",";
            }
            buckets[words(line, ' ')[1]] = bounds + "+Inf,";
        } else if (!line.empty() && line[0] != '#') {
            const Words parts = words(line, '|');
            EXPECT_EQ(parts.size(), 6u) << line;
            Listed& entry = out[parts[0]];
            entry = {parts[1], parts[4], parts[3] == "-" ? "" : buckets[parts[3]], {}};
            for (const std::string& label : words(parts[2], ' ')) {
                if (label != "-") {
                    entry.labels.insert(label.substr(0, label.find('=')));
                }
            }
        }
    }
    return out;
}

struct Shown {
    std::string type;
    std::set<std::string> labels;               // of its series, all together
    std::map<std::string, std::string> bounds;  // by the other labels
};

// Labels of these tests hold no commas or quotes.
std::map<std::string, Shown> shown(const std::string& text) {
    std::map<std::string, Shown> out;
    std::string family;
    std::stringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with("# TYPE ")) {
            const Words parts = words(line, ' ');
            family = parts[2];
            out[family].type = parts[3];
        } else if (line.starts_with(family) && line.find('{') != std::string::npos) {
            const std::size_t from = line.find('{') + 1;
            std::string others;
            std::string bound;
            for (const std::string& label : words(line.substr(from, line.find('}') - from), ',')) {
                const std::string name = label.substr(0, label.find('='));
                if (name == "le") {
                    bound = label.substr(4, label.size() - 5);
                } else {
                    out[family].labels.insert(name);
                    others += label;
                }
            }
            if (!bound.empty()) {
                out[family].bounds[others] += bound + ",";
            }
        }
    }
    return out;
}

TEST(MetricsList, IsWhatARuntimeExposes) {
    DemoRecord record;
    World world;
    obs::Metrics outer;  // of what the host adds around a runtime
    cli::Observers observers(outer, obs::Log(world.loop, world.log.sink(), {}));
    obs::register_process_metrics(outer);
    world.client_observer = &observers;
    world.cache_observer = &observers;
    world.add(demo_plugin(record));
    world.boot();
    observers.show_cache(*world.cache, world.loop);
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    const auto found = shown(world.metrics->render() + outer.render());
    const auto list = listed();
    for (const auto& [name, entry] : list) {
        const auto series = found.find(name);
        if (entry.when.starts_with("no:")) {
            EXPECT_EQ(series, found.end()) << name << " is there, but " << entry.when;
            continue;
        }
        if (series == found.end()) {
            EXPECT_NE(entry.when, "always") << name << " is missing";
            continue;
        }
        EXPECT_EQ(series->second.type, entry.type) << name;
        EXPECT_EQ(series->second.labels, entry.labels) << name;
        for (const auto& [labels, bounds] : series->second.bounds) {
            EXPECT_EQ(bounds, entry.buckets) << name << " " << labels;
        }
    }
    for (const auto& [name, series] : found) {
        EXPECT_TRUE(list.contains(name) || name.starts_with("capstan_"))
            << name << " is not listed";
    }
}

}  // namespace
}  // namespace capstan::test
