// `capstan backup check`: whether a store does what backups need.
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"

#include <unistd.h>

namespace capstan::steward {
namespace {

CommandResult<int> check_backup(Session& session) {
    const StoreArguments& arguments = session.arguments().store;
    CAPSTAN_TRY(const auto store, session.open(arguments, StoreRole::primary));
    const std::string token =
        std::to_string(session.now().time_since_epoch().count()) + std::to_string(::getpid());
    const StoreCheck check = check_store(*store, arguments.prefix, token);
    json::Value steps = json::list();
    std::vector<std::vector<std::string>> rows{{"STEP", "STATE"}};
    for (const CheckStep& step : check.steps) {
        steps.push_back({{"name", step.name}, {"problem", step.problem}});
        rows.push_back({step.name, step.problem.empty() ? "good" : step.problem});
    }
    const int printed =
        session.arguments().as_json
            ? session.print_json({{"store", store->describe()}, {"steps", std::move(steps)}})
            : session.print(store->describe() + "\n" + table_text(rows));
    if (!check.ok()) {
        session.complain("this store cannot hold backups as it is");
        return CAPSTAN_EXIT_UNREACHABLE;
    }
    return printed;
}

}  // namespace

int run_check(Session& session) {
    const auto done = check_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
