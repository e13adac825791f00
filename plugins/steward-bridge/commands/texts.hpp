// The words of `capstan backup --help`.
#pragma once

#include <array>
#include <string_view>

namespace capstan::steward {

struct CommandText {
    std::string_view name, summary, footer;
    bool reads_a_chain{false};
};

inline constexpr std::string_view kBackupText =
    "Backups of etcd in a directory or a bucket: look, prove, restore, copy";

inline constexpr std::string_view kBackupFooter =
    "A backup is what lies below one prefix of a container: full snapshots and the deltas after\n"
    "them, as etcd-backup-restore writes them. No etcd and no API server is needed.\n"
    "\n"
    "Credentials of S3: AWS_APPLICATION_CREDENTIALS (a directory with a file per field),\n"
    "AWS_APPLICATION_CREDENTIALS_JSON (one file), else AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,\n"
    "AWS_REGION and the others of AWS's tools. `copy` reads those of its source with SOURCE_ in\n"
    "front of the first two names, when they are set.\n"
    "\n"
    "Exit codes: 0 whole, 1 failed otherwise, 2 usage, 4 store unreachable, 6 damaged, incomplete\n"
    "or not there; 130 after SIGINT.\n"
    "\n"
    "  capstan backup list   --provider Local --container /backups --prefix main\n"
    "  capstan backup verify --provider S3 --container my-bucket --prefix main --region eu-1";

inline constexpr std::array kCommandTexts{
    CommandText{
        "list",
        "List the snapshots and say up to where they can be restored",
        "By names alone: `verify` reads what is inside.\n"
        "\n"
        "  capstan backup list --provider Local --container /backups --prefix main\n"
        "  capstan backup list --provider Local --container /backups --prefix main -o json"},
    CommandText{
        "explain",
        "Say of every object whether garbage collection keeps it, and by which rule",
        "Nothing is deleted.\n"
        "\n"
        "  capstan backup explain --provider Local --container /backups --prefix main\n"
        "  capstan backup explain … --retention limit --max-backups 3 --delta-retention 1h"},
    CommandText{"verify",
                "Read everything a restore would read, and prove that it is whole",
                "  capstan backup verify --provider Local --container /backups --prefix main\n"
                "  capstan backup verify … --all\n"
                "  capstan backup verify … --to-revision 1200",
                true},
    CommandText{
        "restore",
        "Make the data directory of an etcd from a backup",
        "The directory appears when it is whole, or not at all. Start etcd with the same name,\n"
        "cluster and token.\n"
        "\n"
        "  capstan backup restore --provider Local --container /backups --prefix main \\\n"
        "    --data-dir /var/etcd/data/new.etcd --name main-0 \\\n"
        "    --initial-cluster main-0=http://127.0.0.1:2380\n"
        "  capstan backup restore … --to-time 2026-11-30T12:00:00Z",
        true},
    CommandText{
        "compact",
        "Make one new full snapshot out of the newest full and the deltas after it",
        "Nothing is deleted; garbage collection does that. The new snapshot is read back before\n"
        "it counts. Where no delta follows the full there is nothing to compact; --compression\n"
        "packs it anew all the same.\n"
        "\n"
        "  capstan backup compact --provider Local --container /backups --prefix main\n"
        "  capstan backup compact … --dry-run",
        true},
    CommandText{
        "copy",
        "Copy snapshots to another store or prefix",
        "What is there already is passed over, so an interrupted copy goes on when it is called\n"
        "again. Each object is checked and read back. What is damaged is named and not copied,\n"
        "and the exit code is 6; with --accept-damaged it is copied as it is. A copied snapshot\n"
        "is not final. Without --to-provider, --to-endpoint, --to-region, --to-ca-file and\n"
        "--to-path-style the target is where the source is.\n"
        "\n"
        "  capstan backup copy --provider Local --container /backups --prefix main \\\n"
        "    --to-provider S3 --to-container my-bucket --to-prefix main --to-region eu-1"},
    CommandText{"dump",
                "Print the keys of a backup as JSON, as etcdctl lists them",
                "Always JSON; keys and values are in base64.\n"
                "\n"
                "  capstan backup dump --provider Local --container /backups --prefix main\n"
                "  capstan backup dump … --revision 1200 --file keys.json",
                true},
    CommandText{"check",
                "Try what backups need of a store: write, list, read, fences, delete",
                "What it writes, below PREFIX/capstan/, is gone afterwards.\n"
                "\n"
                "  capstan backup check --provider S3 --container my-bucket --prefix main"},
};

}  // namespace capstan::steward
