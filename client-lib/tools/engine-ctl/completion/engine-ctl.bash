# bash completion of engine-ctl; made by `engine-ctl completion bash`.
_engine_ctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local offer= options= files= verb= i word
    local -a words=()

    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        --socket|--timeout|--interval|--ticks|--client|--pid|--diff|--frames|--debug-dir|--filter|--type|--where|--max-rate|--state|--mip|--bytes|--set|--remove|--channels|--levels|--reason|--hold|--trace|--limit|--time|--late|--clock|--every|--event|--payload|--level|--module|--lines|--last|--step|--seconds|--history|--speed|--tag|--sample|--) ((i++)) ;;
        -*) ;;
        *) words+=("$word") ;;
        esac
    done
    case ${words[0]-} in
    '') offer="status top doctor wait clients mem-report mem-leaks mem-snapshot events resources cook breaker clock timer config log telemetry completion postmortem record replay run call" ;;
    status) verb=${words[0]} ;;
    top) verb=${words[0]} ;;
    doctor) verb=${words[0]} ;;
    wait) verb=${words[0]} ;;
    clients) verb=${words[0]} ;;
    mem-report) verb=${words[0]} ;;
    mem-leaks) verb=${words[0]} ;;
    mem-snapshot) verb=${words[0]} ;;
    events) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="list tail stats publish"; fi ;;
    resources) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="list get define undefine load unload request reload pin watch dump evict mount alias stats"; fi ;;
    cook) verb=${words[0]} ;;
    breaker) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="get trip reset policy rehearse trace history samples"; fi ;;
    clock) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="get pause resume scale checkpoint rollback step create rate group"; fi ;;
    timer) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="arm cancel list"; fi ;;
    config) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="show get set reload check schema"; fi ;;
    log) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="level tail"; fi ;;
    telemetry) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="get tail history"; fi ;;
    completion) verb=${words[0]} ;;
    postmortem) if ((${#words[@]} > 1)); then verb="${words[0]} ${words[1]}"; else offer="list show"; fi ;;
    record) verb=${words[0]} ;;
    replay) verb=${words[0]} ;;
    run) verb=${words[0]} ;;
    call) verb=${words[0]} ;;
    esac
    if [[ -n $verb ]]; then
        word=($verb)
        i=$((${#words[@]} - ${#word[@]}))
        case $verb/$i in
    "wait/0") offer="ready memory.total_bytes memory.available_bytes memory.daemon_bytes memory.assets_bytes memory.clients_bytes memory.clients_peak_bytes memory.clients clock.game_ns clock.paused clock.steps clock.missed clock.jitter_p99_ns clock.discontinuities clock.timers event.types event.ports event.readers event.published event.bytes event.delivered event.lost event.refused event.latency_p99_ns breaker.level breaker.available_permille breaker.growth_bytes_s breaker.reservations breaker.looks resource.groups resource.ready resource.bytes resource.loaded resource.failed resource.evicted control.clients control.requests control.errors control.connections control.refused control.dropped control.log_lost control.descriptors" ;;
    "resources dump/1") files=1 ;;
    "resources mount/0") files=1 ;;
    "breaker trip/0") offer="0 1 2 3" ;;
    "clock step/0") offer="real game physics network ai" ;;
    "clock create/0") offer="real game physics network ai" ;;
    "clock rate/0") offer="real game physics network ai" ;;
    "clock group/0") offer="real game physics network ai" ;;
    "config get/0") offer="log.level log.levels log.sinks log.file log.file_bytes log.file_count log.journal control.connections control.connections_per_user control.batch control.in_flight control.output_bytes control.line_s control.replay_bytes control.replay_s control.group core.descriptor_store client.grace_s event.stall_ms event.queue_bytes scheduler.priority scheduler.waitv scheduler.history_s scheduler.budget_ms scheduler.timers resource.workers resource.heap_bytes resource.heap_huge resource.heap_path resource.bytes_max resource.pixels_max resource.seconds_max resource.decode_memory_bytes resource.sandbox resource.drop_cache resource.mounts resource.manifests resource.soft_bytes resource.tick_ms resource.hot_reload resource.membarrier breaker.warning_permille breaker.eviction_permille breaker.emergency_permille breaker.warning_bytes breaker.eviction_bytes breaker.emergency_bytes breaker.hysteresis_permille breaker.hold_ms breaker.psi_some_permille breaker.psi_full_permille breaker.psi_ceiling_permille breaker.tick_ms breaker.fast_tick_ms breaker.fast_permille breaker.order_extra_permille breaker.order_growth_ms breaker.order_deadline_ms breaker.grace_ms breaker.save_deadline_ms breaker.sigterm breaker.particle_rate_permille breaker.lod_bias_permille breaker.budget_eviction_permille breaker.warning_actions breaker.eviction_actions breaker.emergency_actions breaker.on_level breaker.on_level_s breaker.kernel_events breaker.proc breaker.groups telemetry.interval_ms telemetry.history postmortem.directory postmortem.count postmortem.bytes memory.look_ms memory.suspect_frames" ;;
    "config set/0") offer="log.level log.levels log.sinks log.file log.file_bytes log.file_count log.journal control.connections control.connections_per_user control.batch control.in_flight control.output_bytes control.line_s control.replay_bytes control.replay_s control.group core.descriptor_store client.grace_s event.stall_ms event.queue_bytes scheduler.priority scheduler.waitv scheduler.history_s scheduler.budget_ms scheduler.timers resource.workers resource.heap_bytes resource.heap_huge resource.heap_path resource.bytes_max resource.pixels_max resource.seconds_max resource.decode_memory_bytes resource.sandbox resource.drop_cache resource.mounts resource.manifests resource.soft_bytes resource.tick_ms resource.hot_reload resource.membarrier breaker.warning_permille breaker.eviction_permille breaker.emergency_permille breaker.warning_bytes breaker.eviction_bytes breaker.emergency_bytes breaker.hysteresis_permille breaker.hold_ms breaker.psi_some_permille breaker.psi_full_permille breaker.psi_ceiling_permille breaker.tick_ms breaker.fast_tick_ms breaker.fast_permille breaker.order_extra_permille breaker.order_growth_ms breaker.order_deadline_ms breaker.grace_ms breaker.save_deadline_ms breaker.sigterm breaker.particle_rate_permille breaker.lod_bias_permille breaker.budget_eviction_permille breaker.warning_actions breaker.eviction_actions breaker.emergency_actions breaker.on_level breaker.on_level_s breaker.kernel_events breaker.proc breaker.groups telemetry.interval_ms telemetry.history postmortem.directory postmortem.count postmortem.bytes memory.look_ms memory.suspect_frames" ;;
    "config check/0") files=1 ;;
    "log level/1") offer="trace debug info warning error" ;;
    "telemetry get/0") offer="memory clock event breaker resource control" ;;
    "telemetry tail/0") offer="memory clock event breaker resource control" ;;
    "telemetry history/0") offer="memory clock event breaker resource control" ;;
    "completion/0") offer="bash zsh fish" ;;
    "record/0") files=1 ;;
    "replay/0") files=1 ;;
    "call/0") offer="core.hello core.ping core.info core.discover core.shutdown core.reload client.attach client.detach client.resumed client.list client.get clock.get clock.pause clock.resume clock.scale clock.checkpoint clock.rollback clock.step.create clock.step.rate clock.step.advance clock.group.join clock.group.leave clock.group.get timer.arm timer.cancel timer.list event.register event.list event.stats event.publish event.subscribe event.unsubscribe event.port.open event.port.close event.port.accept event.port.sync event.reader.open event.reader.accept event.reader.sync event.reader.close resource.mount resource.alias resource.stats resource.define resource.undefine resource.load resource.unload resource.request resource.list resource.gpu resource.get resource.pin resource.evict resource.reload resource.trace memory.stats memory.report memory.tags memory.pools memory.sites memory.leaks memory.snapshot breaker.get breaker.trip breaker.reset breaker.policy breaker.rehearse breaker.trace breaker.history breaker.samples breaker.declare breaker.reserve breaker.release config.get config.set config.reload log.level log.tail log.unsubscribe telemetry.get telemetry.subscribe telemetry.unsubscribe telemetry.history postmortem.list postmortem.get" ;;
        esac
        case $verb in
    "status") options="--watch" ;;
    "top") options="--interval --ticks" ;;
    "clients") options="--closed" ;;
    "mem-report") options="--client --pid --diff --watch --frames --debug-dir" ;;
    "mem-leaks") options="--filter --frames --debug-dir" ;;
    "events tail") options="--type --where --max-rate --latest" ;;
    "events stats") options="--type --watch" ;;
    "resources list") options="--state --gpu" ;;
    "resources pin") options="--off" ;;
    "resources dump") options="--mip" ;;
    "resources evict") options="--bytes" ;;
    "resources alias") options="--set --remove" ;;
    "cook") options="--channels --levels" ;;
    "breaker trip") options="--reason --hold" ;;
    "breaker policy") options="--set" ;;
    "breaker rehearse") options="--set --trace --recorded" ;;
    "breaker trace") options="--limit" ;;
    "breaker history") options="--limit --actions" ;;
    "breaker samples") options="--client --limit" ;;
    "clock rollback") options="--time" ;;
    "clock create") options="--real --late" ;;
    "timer arm") options="--clock --every --event --payload" ;;
    "config show") options="--origin --changed" ;;
    "log tail") options="--level --module --lines" ;;
    "telemetry tail") options="--interval" ;;
    "telemetry history") options="--last --step" ;;
    "record") options="--type --seconds --history --info" ;;
    "replay") options="--type --speed --step-locked" ;;
    "run") options="--tag --sample --at-once" ;;
        esac
    fi
    if [[ $cur == -* ]]; then
        offer="$options --socket --json --timeout --dry-run --help --version"
        files=
    fi
    case $prev in
    --socket) files=1 ;;
    --timeout) : ;;
    --interval) : ;;
    --ticks) : ;;
    --client) : ;;
    --pid) : ;;
    --diff) : ;;
    --frames) : ;;
    --debug-dir) : ;;
    --filter) : ;;
    --type) : ;;
    --where) : ;;
    --max-rate) : ;;
    --state) : ;;
    --mip) : ;;
    --bytes) : ;;
    --set) : ;;
    --remove) : ;;
    --channels) : ;;
    --levels) : ;;
    --reason) : ;;
    --hold) : ;;
    --trace) files=1 ;;
    --limit) : ;;
    --time) : ;;
    --late) offer="skip slow" ;;
    --clock) offer="real game physics network ai" ;;
    --every) : ;;
    --event) : ;;
    --payload) : ;;
    --level) offer="trace debug info warning error" ;;
    --module) : ;;
    --lines) : ;;
    --last) : ;;
    --step) : ;;
    --seconds) : ;;
    --history) : ;;
    --speed) : ;;
    --tag) : ;;
    --sample) : ;;
    esac
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$offer" -- "$cur")
    fi
}
complete -F _engine_ctl engine-ctl
