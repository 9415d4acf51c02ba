package broker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
	"millrace/log/internal/scram"
)

// DescribeUserScramCredentials, key 50, version 0. AlterUserScramCredentials, key 51, version 0: clients send the salted
// password, of which the credential is derived here.
//
// DescribeClientQuotas, key 48, versions 0 and 1: Kafka's tool for users asks for quotas in the same breath. There are none.
//
// There are no access rules yet, but whoever can set a password can come back as anybody. So users are seen and changed
// by this process, by the super users, and from this machine over a listener that asks nobody to sign in.

func (s *Server) mayManageUsers(c *conn) bool {
	switch {
	case c.at.InMemory:
		return true
	case c.principal == "User:ANONYMOUS":
		return c.at.Loopback && c.signIn == nil
	}
	return s.supers[c.principal]
}

func (s *Server) managersOnly(c *conn) error {
	if s.mayManageUsers(c) {
		return nil
	}
	return &catalog.Error{Code: kerr.ClusterAuthorizationFailed, Reason: c.principal + " may not see or change users: list it in log.super.users, or connect from the broker's machine to a listener without sign-in"}
}

func (s *Server) describeQuotas(_ *call, _ *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	return resp
}

func (s *Server) describeScram(c *call, req *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	if err := s.managersOnly(c.conn); err != nil {
		resp.ErrorCode, resp.ErrorMessage = refusal(err)
		return resp
	}
	byUser := map[string][]catalog.Account{}
	all := s.cat.ScramUsers()
	for a := range all {
		byUser[a.User] = append(byUser[a.User], a)
	}
	var names []string
	asked := map[string]int{}
	for _, u := range req.Users {
		if asked[u.Name]++; asked[u.Name] == 1 {
			names = append(names, u.Name)
		}
	}
	if len(req.Users) == 0 {
		names = slices.Sorted(maps.Keys(byUser))
	}
	for _, name := range names {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User = name
		accounts := byUser[name]
		switch {
		case asked[name] > 1:
			out.ErrorCode, out.ErrorMessage = refusal(&catalog.Error{Code: kerr.DuplicateResource, Reason: "Cannot describe SCRAM credentials for the same user twice in a single request: " + name})
		case len(accounts) == 0:
			out.ErrorCode, out.ErrorMessage = refusal(&catalog.Error{Code: kerr.ResourceNotFound, Reason: "Attempt to describe a user credential that does not exist: " + name})
		}
		if out.ErrorCode == 0 {
			slices.SortFunc(accounts, func(a, b catalog.Account) int { return cmp.Compare(a.Mechanism, b.Mechanism) })
			for _, a := range accounts {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = int8(a.Mechanism), int32(all[a].Iterations)
				out.CredentialInfos = append(out.CredentialInfos, info)
			}
		}
		resp.Results = append(resp.Results, out)
	}
	return resp
}

func (s *Server) alterScram(c *call, req *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	type change struct {
		changes []catalog.ScramChange
		err     error
		seen    map[catalog.Account]bool
	}
	var order []string
	byUser := map[string]*change{}
	add := func(user string, mechanism int8, make func(scram.Mechanism) (*scram.Credential, error)) {
		u := byUser[user]
		if u == nil {
			u = &change{seen: map[catalog.Account]bool{}}
			byUser[user], order = u, append(order, user)
		}
		a := catalog.Account{User: user, Mechanism: scram.Mechanism(mechanism)}
		cr, err := make(a.Mechanism)
		switch {
		case u.err != nil:
			return
		case user == "" || catalog.CheckUser(user) != nil:
			err = &catalog.Error{Code: kerr.UnacceptableCredential, Reason: catalog.CheckUser(user).Error()}
		case !slices.Contains(scram.Mechanisms, a.Mechanism):
			err = &catalog.Error{Code: kerr.UnsupportedSaslMechanism, Reason: "Unknown SCRAM mechanism"}
		case u.seen[a]:
			err = &catalog.Error{Code: kerr.DuplicateResource, Reason: "A user credential cannot be altered twice in the same request"}
		}
		if u.err = err; err != nil {
			return
		}
		u.seen[a] = true
		u.changes = append(u.changes, catalog.ScramChange{Account: a, Set: cr})
	}
	denied := s.managersOnly(c.conn)
	for _, d := range req.Deletions {
		add(d.Name, d.Mechanism, func(scram.Mechanism) (*scram.Credential, error) { return nil, denied })
	}
	for _, up := range req.Upsertions {
		add(up.Name, up.Mechanism, func(m scram.Mechanism) (*scram.Credential, error) {
			if denied != nil {
				return nil, denied
			}
			return credential(m, up)
		})
	}
	for _, user := range order {
		u := byUser[user]
		if u.err == nil {
			u.err = s.cat.AlterScram(u.changes...)
		}
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User = user
		out.ErrorCode, out.ErrorMessage = refusal(u.err)
		resp.Results = append(resp.Results, out)
		if u.err == nil {
			s.lg.Info("a user's credentials were changed", "user", user, "by", c.conn.principal, "peer", c.conn.peer())
		}
	}
	return resp
}

// credential derives what is kept of what a client sends.
func credential(m scram.Mechanism, up kmsg.AlterUserSCRAMCredentialsRequestUpsertion) (*scram.Credential, error) {
	refuse := func(text string) error { return &catalog.Error{Code: kerr.UnacceptableCredential, Reason: text} }
	switch {
	case !slices.Contains(scram.Mechanisms, m):
		return nil, nil // refused by whoever asked
	case up.Iterations < scram.MinIterations:
		return nil, refuse("Too few iterations")
	case up.Iterations > scram.MaxIterations:
		return nil, refuse("Too many iterations")
	case len(up.SaltedPassword) != m.Hash()().Size():
		return nil, refuse("The salted password does not have the length of the mechanism's hash")
	}
	cr := scram.FromSalted(m, slices.Clone(up.Salt), int(up.Iterations), up.SaltedPassword)
	if err := cr.Check(m); err != nil {
		return nil, refuse(err.Error())
	}
	return &cr, nil
}
