package postgres_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
)

// Where the tables are gone, every method says so in words for the operator: none takes what it cannot read for
// nothing, or says that it has written.
func TestStore_SchemaIsMissing_EveryMethodSaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db := open(t, url, time.Now)
	if _, err := connect(t, url).Exec(t.Context(), `alter schema ravenbot rename to elsewhere`); err != nil {
		t.Fatal(err)
	}
	// Those that look at no table.
	needNone := map[string]bool{"LocalAddr": true, "Membership": true}
	methods := reflect.ValueOf(db)
	for i := range methods.NumMethod() {
		name, method := methods.Type().Method(i).Name, methods.Method(i)
		args, ok := argumentsOf(t.Context(), method.Type())
		if !ok || needNone[name] {
			continue
		}
		results := method.Call(args)
		err, _ := results[len(results)-1].Interface().(error)
		if explained := (*store.SystemError)(nil); !errors.As(err, &explained) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

// argumentsOf returns arguments for a method that takes a context and returns an error; false for all others. They are
// small values: numbers are 1, bytes an empty record, and lists have one element.
func argumentsOf(ctx context.Context, method reflect.Type) (args []reflect.Value, ok bool) {
	n := method.NumOut()
	if n == 0 || method.Out(n-1) != reflect.TypeFor[error]() || method.NumIn() == 0 ||
		method.In(0) != reflect.TypeFor[context.Context]() {
		return nil, false
	}
	args = []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.NumIn(); i++ {
		arg := reflect.New(method.In(i)).Elem()
		switch {
		case arg.Type() == reflect.TypeFor[[]store.Record]():
			arg = reflect.ValueOf([]store.Record{{Kind: "blob", Key: "a", Body: []byte(`{}`)}})
		case arg.Kind() == reflect.Slice && arg.Type().Elem().Kind() == reflect.Uint8:
			arg.SetBytes([]byte(`{}`))
		case arg.CanInt():
			arg.SetInt(1)
		case arg.Kind() == reflect.Slice && method.IsVariadic() && i == method.NumIn()-1:
			arg = reflect.New(method.In(i).Elem()).Elem()
		case arg.Kind() == reflect.Slice:
			arg = reflect.MakeSlice(arg.Type(), 1, 1)
		case arg.Kind() == reflect.Pointer:
			arg = reflect.New(arg.Type().Elem())
		}
		args = append(args, arg)
	}
	return args, true
}
