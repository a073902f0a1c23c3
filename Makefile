# make run    build the daemon and start it with config.json
# make test   everything that must pass before a change lands
# The rest: build release chart chaos conformance bench allocations-update pictures vuln fmt image image-full clean

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CONFIG      ?= config.json
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE        ?= $(shell git log -1 --format=%cs 2>/dev/null)
LDFLAGS     := -s -w -X ravenbot/internal/cli.version=$(VERSION) -X ravenbot/internal/cli.commit=$(COMMIT) -X ravenbot/internal/cli.date=$(DATE)
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
SOURCES      = $(shell git ls-files --cached --others --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')

.PHONY: run build release chart test check-format vet staticcheck race allocations allocations-update notices chaos conformance bench pictures vuln fmt image image-full clean

run: build
	bin/ravenbot run --config $(CONFIG)

build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ravenbot ./cmd/ravenbot

# Writes what is published into dist/: archives, packages, lists of modules and checksums (.goreleaser.yaml). Two builds
# of a commit with one version of Go have equal binaries. Without a tag it is a snapshot.
release:
	go run github.com/goreleaser/goreleaser/v2@v2.14.0 release --clean \
		$$(git describe --tags --exact-match >/dev/null 2>&1 || echo --snapshot)

test: notices check-format vet staticcheck allocations race

# Lints and renders the Helm chart, and reads what it renders as Kubernetes does.
chart:
	cd deploy/helm/check && go test ./...

# What this machine lacks is said first, so that a short run is not taken for a whole one.
notices:
	@command -v npx >/dev/null 2>&1 || echo 'skipped: tests with real MCP servers need Node.js (npx)'
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
		command -v google-chrome >/dev/null 2>&1 || echo 'skipped: tests of the chat page need Chromium'
	@command -v postgres >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
		echo 'skipped: tests with a database need PostgreSQL 15 or newer (initdb, postgres, pg_ctl)'
	@command -v promtool >/dev/null 2>&1 || echo 'skipped: tests of the alert rules need promtool, of Prometheus'
	@test -n "$$RAVENBOT_CORPORA" || echo 'skipped: tests on collected real input need RAVENBOT_CORPORA'

check-format:
	@unformatted=$$(gofmt -l $(SOURCES)); test -z "$$unformatted" || { echo "run make fmt: $$unformatted"; exit 1; }

vet:
	go vet ./...

staticcheck:
	$(STATICCHECK) ./...

# Tests that compute for long, most of them in one goroutine: the race detector finds nothing in them and makes them
# ten times as slow, so that they run without it.
COMPUTING := TestMonth_NoFeedIsStarved TestNoSourceFillsMoreThanItsPart \
	TestRun_MoreFeedsThanPlaces_AllAreShownWithinDays TestAWeekOfNewsIsToldOnce \
	TestRead_FilesThatCannotBeRead_SayWhyInWords TestHostileServers TestBombs \
	TestGroupIsOfTheEntriesAlone TestStateIsBounded TestOPMLIsHarmless \
	TestRead_OfCollectedPages_FindsTheMainContent TestRead_HostilePages_EndInTime TestLoopOverRestarts \
	TestWords TestDamagedPDFsEnd TestWhatIsNoPDFIsToldOf TestNothingForeignBecomesActive \
	TestSearchFindsWhatPeopleAskFor TestTypingErrorsCostLittle TestHistoryLeavesNoTrace \
	TestTenThousandToolsFitInMemory TestWeekWithFlatMemory \
	TestTwentyThousandInteractionsLeaveTheHeapAsItWas TestManyInteractionsLeaveNothing \
	TestCommonMarkExamplesSurviveSplitting TestHostileInputIsBounded TestDeepAndLargeInput TestDamagedCopies TestPowerCuts \
	TestSalvage_OfAnyDamage_InventsNothing TestReadFile_AnyBitOfAPageIsFlipped_IsNoticed
space := $(subst ,, )
COMPUTING_NAMES := ^($(subst $(space),|,$(strip $(COMPUTING))))$$
COMPUTING_IN := ./adapters/discord ./adapters/web ./internal/news/digest ./internal/recall/document ./internal/news/feed ./internal/turn/markdown \
	./internal/recall/page ./internal/recall/pdftext ./internal/news/schedule ./internal/turn/schema ./internal/store/bolt ./internal/news/summary \
	./internal/recall/toolsearch

# The race detector needs cgo and a C compiler; the daemon itself is built without either. The target vet has vetted
# everything already. Tests that run in parallel wait for simulated platforms and databases for most of their time.
race:
	CGO_ENABLED=1 go test -race -vet=off -p 3 -parallel 4 -timeout 15m -skip '$(COMPUTING_NAMES)' $$(go list ./... | grep -v /internal/testing/archtest$$)
	go test -vet=off -timeout 15m -run '$(COMPUTING_NAMES)' $(COMPUTING_IN)
	go test ./internal/testing/archtest

# Compares what the work on a message allocates with the recorded figures; the same on every machine. After a change
# that is worth its cost, allocations-update records it.
allocations:
	RAVENBOT_ALLOCATIONS=1 go test -count=1 ./internal/testing/allocations

allocations-update:
	go test -count=1 ./internal/testing/allocations -update

# Kills the daemon 500 times under load, and damages 300 copies of a store; RAVENBOT_SEED repeats a run.
chaos:
	RAVENBOT_KILLS=$${RAVENBOT_KILLS:-500} go test -count=1 -timeout 90m -run TestChaos -v ./internal/app
	RAVENBOT_DAMAGED=$${RAVENBOT_DAMAGED:-300} go test -count=1 -timeout 30m -run Damaged -v ./internal/store/bolt

# The official MCP conformance suite with cmd/ravensim as the client; needs npx.
conformance:
	RAVENBOT_CONFORMANCE=1 go test -count=1 -timeout 30m -run TestConformanceSuite -v ./cmd/ravensim

bench:
	go test -run '^$$' -bench . -benchmem ./...

# Takes the pictures of README and docs/digests.md; needs Chromium and a font with emoji.
pictures:
	RAVENBOT_PICTURES=1 go test -count=1 -run TestPictures ./internal/app

# Looks for known vulnerabilities in what the program calls; needs the network (vuln.go.dev).
vuln:
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

fmt:
	gofmt -w $(SOURCES)

image:
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t ravenbot:$(VERSION) .

image-full:
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --target full -t ravenbot:$(VERSION)-full .

clean:
	rm -rf bin dist
